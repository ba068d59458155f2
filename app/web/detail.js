// One item, all its sides: pictures to turn through, captions, what its payload says.

import * as api from "./api.js";
import { $, cross, h, nameOf } from "./dom.js";

const PLACES = { view: "views", photo: "photos" };
const dialog = $("detail");

function stage(pictures, start) {
  let at = Math.max(0, pictures.findIndex((seen) => seen.kind === start?.kind && seen.index === start?.index));
  const large = h("img", { width: 224, height: 224 });
  const thumbs = pictures.map((seen, place) =>
    h("button", { type: "button", "aria-label": `${seen.kind} ${seen.index + 1}`, onclick: () => turn(place) },
      h("img", { src: seen.url, alt: "" })));
  function turn(place) {
    at = (place + pictures.length) % pictures.length;
    large.src = pictures[at].url;
    large.alt = `${pictures[at].kind} ${pictures[at].index + 1}`;
    thumbs.forEach((thumb, i) => thumb.setAttribute("aria-pressed", String(i === at)));
  }
  turn(at);
  const keys = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { turn(at + step); event.preventDefault(); }
  };
  const element = h("div", { class: "stage" }, large, h("div", { class: "strip", role: "group", "aria-label": "Views and photos" }, ...thumbs));
  return { element, keys, current: () => pictures[at] };
}

function payload(values) {
  const plain = (value) => ["string", "number", "boolean"].includes(typeof value);
  const shown = Object.entries(values)
    .map(([name, value]) => [name, Array.isArray(value) && value.every(plain) ? value.join(", ") : value])
    .filter(([, value]) => plain(value) && value !== "");
  return h("dl", {}, ...shown.flatMap(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, String(value))]));
}

function captions(observations, matched) {
  const said = observations.filter((seen) => seen.kind === "caption");
  const isMatch = (seen) => matched?.kind === "caption" && matched.index === seen.index;
  return h("ul", {}, ...said.map((seen) => h("li", { class: isMatch(seen) ? "matched" : null }, seen.text)));
}

// Shows an item; `close` and `more` are called when its reader wants that.
export async function show(id, matched, { close, more }) {
  const item = await api.item(id);
  const pictures = item.observations.filter((seen) => seen.url);
  const turning = pictures.length ? stage(pictures, matched) : null;
  const alike = turning && h("button", {
    type: "button", class: "solid",
    onclick: () => more(id, `${PLACES[turning.current().kind]}/${turning.current().index}`),
  }, "More like this");
  dialog.replaceChildren(
    h("div", { class: "sheet", tabindex: "-1", autofocus: true },
      turning?.element,
      h("div", { class: "facts" },
        h("h2", { id: "detail-title" }, nameOf(item.id, item.payload)),
        h("p", { class: "quiet" }, item.id),
        captions(item.observations, matched),
        payload(item.payload),
        alike)),
    h("button", { type: "button", class: "icon close", "aria-label": "Close", onclick: close }, cross()),
  );
  dialog.onkeydown = turning?.keys ?? null;
  dialog.oncancel = (event) => { event.preventDefault(); close(); };
  dialog.onclick = (event) => { if (event.target === dialog) close(); };
  if (!dialog.open) dialog.showModal();
  document.body.classList.add("still");
}

export function hide() {
  if (dialog.open) dialog.close();
  document.body.classList.remove("still");
}
