// Why an item matched: what each piece of evidence adds, a heat map, words with shares; and its more general captions.

import { current } from "../address.js";
import * as api from "../api.js";
import { h } from "../dom.js";
import { legName, placeOf, speaking } from "../results.js";
import { partOf } from "../question.js";
import { hitOf } from "../searching.js";

const FILLING = new Set("a an the this that there is are of with and on in to it its has".split(" "));
const MANY = 12; // captions of a way that are shown

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

// The share of each piece in all that speaks for it, and the observation that it rests on.
function evidence(hit) {
  const pieces = speaking(hit);
  const sum = pieces.reduce((so, { value }) => so + value, 0);
  return pieces.length ? h("dl", { class: "sides" }, ...pieces.flatMap(({ leg, value, matched, text_field }) => {
    const share = Math.round((100 * value) / sum);
    const name = legName(leg, text_field), place = matched && placeOf(matched);
    const full = !place ? name : place.startsWith(name) ? place : `${name}, ${place}`;
    return [h("dt", {}, full), h("dd", {}, styled(h("i", { class: "share" }), "width", `${share / 2}%`), `${share} %`)];
  })) : null;
}

function closest(sides) {
  const [best, other] = Object.entries(sides).sort((one, two) => two[1] - one[1]).map(([side]) => legName(side));
  return h("p", {}, other ? `Closest: ${best}, then ${other}.` : `Compared: ${best}.`);
}

const LEAST_SHARE = 0.2; // of the evidence, that a picture is explained for

// Whether pictures of this kind say much of it. Of one that words found, a heat map would explain nothing.
function carried(hit, kind) {
  if (!hit?.evidence?.length) return true;
  const sum = (pieces) => pieces.reduce((so, { value }) => so + value, 0);
  return sum(speaking(hit).filter(({ matched }) => matched?.kind === kind)) >= LEAST_SHARE * sum(speaking(hit));
}

// What spoke loudest for it, in a sentence.
function reason(hit) {
  const [first] = speaking(hit);
  if (!first) return null;
  const said = first.leg === "words" ? hit.words?.join(" ") : first.matched?.text ?? hit.looks_like?.join(", ");
  return h("p", {}, `Found by ${legName(first.leg, first.text_field)}${said ? `: “${said}”` : ""}.`);
}

export async function explain(id, stage) {
  const seen = stage?.current();
  const at = seen ? { kind: seen.kind, index: seen.index } : {};
  const found = await api.explain({ ...(await partOf(current().clues[0])), item: id, ...at });
  const { heat_map: map, words: said, observation } = found.explained;
  const hit = hitOf(id);
  const isCarried = map && carried(hit, observation.kind);
  if (isCarried) stage?.cover(heat(map));
  const best = found.observations.find((one) => one.kind === "caption");
  return [
    reason(hit),
    evidence(hit) ?? closest(found.sides),
    h("p", { class: "quiet" }, `${placeOf(observation)} in detail`, isCarried && ` · heat map by ${map.method}`),
    found.query.words && words(found.query.words),
    said && words(said),
    best && observation.kind !== "caption" && h("p", { class: "quiet" }, `best caption: “${best.text}”`),
  ];
}

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.filter((word) => !FILLING.has(word)) ?? [];

// Whether a caption says what another says and less: its words are among the other's, in their order.
function isImplied(words, by) {
  let at = 0;
  for (const word of by) if (word === words[at]) at += 1;
  return at === words.length && words.length < by.length;
}

// Captions on the way to the root that are true of the item: its payload says so, or a caption of its own says more.
export async function general({ id, payload, observations }) {
  const { paths } = await api.traverse({ id });
  const own = observations.filter(({ kind }) => kind === "caption").map(({ text }) => wordsOf(text));
  const values = new Set(Object.values(payload).filter((value) => typeof value === "string").flatMap(wordsOf));
  const isTrue = (words) => words.length > 0 && (words.every((word) => values.has(word)) || own.some((said) => isImplied(words, said)));
  const met = paths[0].met.filter(({ text }) => isTrue(wordsOf(text))).slice(0, MANY);
  if (!met.length) return [h("p", { class: "quiet" }, "No caption here is more general and true of it.")];
  return [h("ol", { class: "way" }, ...met.map(({ text }) => h("li", {}, text)))];
}
