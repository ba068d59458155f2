// The box and its chips: what is searched with, each with a weight.
// One clue of words stays in the box; several clues are chips, and the box takes the next one.

import { current, fileClue, fileOf, go, weightOf } from "./address.js";
import { item, smallOf } from "./api.js";
import { $, h, icon, iconButton, nameOf, redraw } from "./dom.js";
import { isMesh } from "./question.js";

const WEIGHTS = [-2, -1, -0.5, 0.5, 1, 2];
let apart = false; // a lone clue of words is a chip too, because another will follow
let drawn = ""; // the clues on screen: as long as they stay, so does what is typed
const pictures = new Map(); // addresses of the dropped pictures, by key

const lone = (clues) => (!apart && clues.length === 1 && clues[0].words && weightOf(clues[0]) === 1 ? clues[0] : null);
const draft = () => $("words").value.trim();

// The clues with what stands in the box but was not asked yet.
function withDraft() {
  const { clues } = current();
  if (lone(clues)) return draft() ? [{ words: draft() }] : [];
  return draft() ? [...clues, { words: draft() }] : clues;
}

export const add = (...clues) => go({ clues: [...withDraft(), ...clues], all: false });
export const askWith = (files) => add(...files.map(fileClue));

function changed(place, weight) {
  apart = true;
  go({ clues: withDraft().flatMap((clue, i) => (i !== place ? [clue] : weight === null ? [] : [{ ...clue, weight }])) });
  if (weight === null) $("words").focus();
}

function faceOf(clue) {
  if (clue.words) return [icon("words"), clue.words];
  if (clue.like) {
    const image = h("img", { alt: "", hidden: true });
    const name = h("span", {}, clue.like);
    item(clue.like).then((found) => {
      name.textContent = nameOf(found);
      const seen = found.observations.find((one) => one.url);
      if (seen) Object.assign(image, { src: smallOf(seen), hidden: false });
    }, () => {});
    return [image, name];
  }
  const file = fileOf(clue);
  if (isMesh(file)) return [icon("mesh"), file.name];
  if (!pictures.has(clue.key)) pictures.set(clue.key, URL.createObjectURL(file));
  const image = h("img", { src: pictures.get(clue.key), alt: "", onerror: () => image.replaceWith(icon("picture")) }); // no browser shows every kind
  return [image, file.name];
}

function chip(clue, place) {
  const weight = weightOf(clue);
  const step = WEIGHTS.indexOf(weight);
  const name = clue.words ?? clue.like ?? fileOf(clue).name;
  const turn = (by) => () => changed(place, WEIGHTS[step + by] ?? (weight + by > 0 ? 1 : -1));
  const button = (kind, label, by, stop) => // the last step stays in reach of the keyboard, it only does nothing
    iconButton(kind, `${label}: ${name}`, stop ? null : turn(by), { "data-key": `${kind}${place}`, "aria-disabled": stop && "true" });
  const sign = weight < 0 ? "−" : "×";
  return h("li", { class: weight < 0 ? "clue away" : "clue", title: clue.key ? `${name}: files are no part of the address` : name },
    h("span", { class: "face" }, ...faceOf(clue)),
    button("minus", "Less of this", -1, step === 0),
    h("output", { "aria-label": `weight ${weight}` }, `${sign}${Math.abs(weight)}`),
    button("plus", "More of this", 1, step === WEIGHTS.length - 1),
    iconButton("cross", `Remove: ${name}`, () => changed(place, null), { "data-key": `cross${place}` }));
}

export function show({ clues, target }) {
  if (clues.length !== 1) apart = false;
  const words = lone(clues);
  redraw($("clues"), ...(words ? [] : clues.map(chip)));
  $("clues").hidden = Boolean(words) || !clues.length;
  const stamp = JSON.stringify([clues, apart]);
  if (stamp !== drawn || !draft()) $("words").value = words?.words ?? "";
  drawn = stamp;
  $("words").placeholder = $("clues").hidden ? "Describe it, or drop a picture or mesh" : "and …";
  document.querySelector(`[name=target][value=${target}]`).checked = true;
  const said = clues.map((clue) => clue.words ?? clue.like ?? fileOf(clue).name).join(" + ");
  document.title = said ? `${said} · Multifold` : "Multifold";
}

// Listens to the box; `again` is called when the same question is asked once more.
export function listen(again) {
  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const clues = withDraft();
    if (!clues.length) return $("words").focus();
    if (JSON.stringify(clues) === JSON.stringify(current().clues)) return again();
    apart = false;
    go({ clues, all: false });
  });
  $("another").addEventListener("click", () => {
    const clues = withDraft();
    apart = true;
    $("words").value = "";
    if (JSON.stringify(clues) === JSON.stringify(current().clues)) show(current());
    else go({ clues, all: false });
    $("words").focus();
  });
  for (const radio of document.querySelectorAll("[name=target]"))
    radio.addEventListener("change", () => go({ clues: withDraft(), target: radio.value }));
}
