// Why an item matched: scores of its sides, a heat map, words with shares; and the way to the root.

import { current } from "./address.js";
import * as api from "./api.js";
import { h } from "./dom.js";
import { partOf } from "./question.js";

const SIDES = { shape: "shape", image: "photos", text: "captions" };
const MANY = 12; // captions of a way that are shown

// What was asked, if it is one thing: a mix has no one explanation.
const asked = () => (current().clues.length === 1 ? current().clues[0] : null);
const alpha = (share, most) => (most > 0 ? Math.max(0, share) / most : 0);

// The page allows no style attributes; what is measured is set by hand.
function styled(element, property, value) {
  element.style.setProperty(property, value);
  return element;
}

function heat({ grid, cut, method }) {
  const most = Math.max(...grid.flat());
  // What does not matter is dimmed: that shows on things of any colour.
  const cells = grid.flat().map((share) => styled(h("i"), "opacity", 0.8 * (1 - alpha(share, most))));
  const map = h("span", { class: "heat", "data-cut": cut, role: "img", "aria-label": `heat map by ${method}` }, ...cells);
  return styled(map, "grid-template", `repeat(${grid.length}, 1fr) / repeat(${grid[0].length}, 1fr)`);
}

function words({ words: said }) {
  const most = Math.max(...said.map((word) => word.share));
  return h("p", { class: "shares" }, ...said.flatMap(({ text, share }) => [styled(h("span", { title: share.toFixed(4) }, text), "--share", alpha(share, most)), " "]));
}

function sides(scores) {
  return h("dl", { class: "sides" }, ...Object.entries(scores).flatMap(([side, score]) => [h("dt", {}, SIDES[side]), h("dd", {}, score.toFixed(3))]));
}

async function explain(id, stage) {
  const seen = stage?.current();
  const at = seen ? { kind: seen.kind, index: seen.index } : {};
  const found = await api.explain({ ...(await partOf(asked())), item: id, ...at });
  const { heat_map: map, words: said, observation } = found.explained;
  if (map) stage?.cover(heat(map));
  const best = found.observations.find((one) => one.kind === "caption");
  return [
    sides(found.sides),
    h("p", { class: "quiet" }, `${observation.kind} ${observation.index + 1} scores ${observation.score.toFixed(3)}`, map && ` · heat map by ${map.method}`),
    found.query.words && words(found.query.words),
    said && words(said),
    best && observation.kind !== "caption" && h("p", { class: "quiet" }, `best caption, ${best.score.toFixed(3)}: “${best.text}”`),
  ];
}

async function traverse(id) {
  const { paths } = await api.traverse({ id });
  const met = paths[0].met.slice(0, MANY);
  return [h("ol", { class: "way" }, ...[...met, { text: "everything", position: 1 }].map((one) => h("li", {}, h("span", { class: "quiet" }, `${Math.round(100 * one.position)} %`), one.text)))];
}

// Two buttons, and under them what they brought.
export function why(id, stage) {
  const place = h("div", { class: "why", "aria-live": "polite" });
  const bring = (label, work) => h("button", { class: "plain", onclick: async (event) => {
    event.target.setAttribute("aria-busy", "true");
    try {
      place.replaceChildren(h("h3", {}, label), ...(await work()).filter(Boolean));
    } catch (error) {
      place.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
    }
    event.target.removeAttribute("aria-busy");
  } }, label);
  return h("div", { class: "insight" },
    h("p", { class: "deeds" }, asked() && bring("Why this?", () => explain(id, stage)), bring("Towards the general", () => traverse(id))),
    place);
}
