// The grid: a card a hit, with the side that matched.

import { current, format, go } from "./address.js";
import * as api from "./api.js";
import * as clues from "./clues.js";
import { $, h, icon, iconButton, nameOf, thumbnail, toolbar } from "./dom.js";
import { kindOf } from "./gather.js";
import { thumbs } from "./judging.js";
import { box } from "./selection.js";
import { told } from "./strict.js";

const AT_ONCE = 4;
const FIRST = 4;

export const placeOf = ({ kind, index }) => (kind === "points" ? kind : `${kind} ${index + 1}`); // an item has them once

// What speaks for an item, the sides by the kind of their observations.
const LEGS = { text: "caption", image: "photo", shape: "view", points: "points", reader: "similar words", examples: "your verdicts" };
export const legName = (leg, field) => LEGS[leg] ?? field ?? leg; // the field that words are in

// The evidence that speaks for a hit, the strongest first.
export const speaking = ({ evidence = [] } = {}) => evidence.filter(({ value }) => value > 0.05);

const reasons = (hit) => [...new Set(speaking(hit).map(({ leg, text_field }) => legName(leg, text_field)))];

// What speaks for a hit, and what its picture looks like.
const listed = (before, names = []) => names.length > 0 && `${before} ${names.join(", ")}`;
const because = (hit) => [listed("by", reasons(hit)), listed("looks like:", hit.looks_like)].filter(Boolean).join("; ");

const picture = (seen) => thumbnail(api.smallOf(seen));

// A view that did not match is as good as any: then the one that stands for the item is shown.
const face = (hit) => (hit.matched.kind === "view" && hit.evidence?.length && !speaking(hit).some(({ matched }) => matched?.kind === "view") ? thumbnail(api.thumbnailOf(hit.id), { class: "drawn" }) : picture(hit.matched));

// What stands for an item without a picture: what kind of file it is of.
const DRAWINGS = { mesh: "mesh", images: "picture" };
// A photo of a folder stands for its item before it is read.
export const blank = ({ id, payload, files }) => {
  const kind = kindOf(payload.path), drawing = icon(files?.length ? "mesh" : (DRAWINGS[kind] ?? "words"));
  return files?.length || kind !== "images" || !payload.source ? drawing : thumbnail(api.thumbnailOf(id), {}, drawing);
};

// A caption that ends with the name was made of it and its folder: it says nothing more.
export const repeats = (text, name) => text.toLowerCase().endsWith(name.toLowerCase());

export const more = (id) => go({ clues: [{ like: id }], all: false });

export function link(id, attributes, ...inside) {
  const onclick = (event) => { if (event.ctrlKey || event.metaKey || event.shiftKey) return; event.preventDefault(); go({ item: id }); };
  return h("a", { href: format({ ...current(), item: id }), onclick, ...attributes }, ...inside);
}

const line = (text, title) => text && h("span", { class: "words", title }, text);

function card(hit) {
  const { id, matched, duplicates = [] } = hit;
  const name = nameOf(hit);
  const sure = hit.confidence == null ? null : told(hit.confidence); // the one unit; what has none is only in order
  const spoken = [name, sure && `confidence ${sure}`, matched && placeOf(matched)];
  const open = link(id, { class: "open", "aria-label": spoken.filter(Boolean).join(", ") },
    h("span", { class: "picture" }, matched?.url && face(hit)),
    h("span", { class: "told" },
      h("span", { class: "top" }, h("span", { class: "name" }, name), sure && h("span", { class: "score", title: "the probability that this is meant" }, sure)),
      h("span", { class: "said" }, matched?.text && !repeats(matched.text, name) ? `“${matched.text}”` : ""),
      line(because(hit), hit.words?.length ? `words of the search in it: ${hit.words.join(" ")}` : null),
      duplicates.length > 0 && line(`and ${duplicates.length} more of the same`, duplicates.map(nameOf).join("\n"))));
  return h("li", { class: "card", "data-item": id }, open, h("span", { class: "acts", role: "toolbar", "aria-label": `What to do with ${name}` }));
}

// What can be done with a hit.
function equip(one, hit) {
  const { id } = hit;
  const name = nameOf(hit);
  one.children[1].append(
    iconButton("alike", `More like ${name}`, () => more(id)),
    iconButton("plus", `Add ${name} to the search`, () => clues.add({ like: id })),
    iconButton("minus", `Search away from ${name}`, () => clues.add({ like: id, weight: -0.5 })),
    h("span", { class: "thumbs" }, ...thumbs(hit)), box(id, name));
  toolbar(one.children[1]);
  const dots = iconButton("more", `What to do with ${name}`, () => { dots.ariaExpanded = String(one.classList.toggle("acting")); }, { class: "icon dots", "aria-expanded": "false" });
  one.append(dots);
}

// What a hit lacks is its item's.
async function complete(cards, hits) {
  const waiting = hits.keys();
  const worker = async () => {
    for (const at of waiting) {
      const one = cards[at], hit = hits[at];
      const item = await api.item(hit.id).catch(() => null);
      if (!item) continue;
      const former = nameOf(hit);
      hit.observations = item.observations;
      const name = nameOf(hit);
      const [title, said, place] = [".name", ".said", ".picture"].map((part) => one.querySelector(part));
      title.textContent = name;
      for (const part of one.querySelectorAll("[aria-label]")) {
        part.ariaLabel = part.ariaLabel.replace(former, () => name);
        if (part.title) part.title = part.ariaLabel;
      }
      said.textContent ||= item.observations.find(({ kind, text }) => kind === "caption" && !repeats(text, name))?.text ?? "";
      const seen = item.observations.find(({ url }) => url);
      if (!place.firstChild) place.append(seen ? picture(seen) : blank(item));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

export function show(hits) {
  clear();
  append(hits);
}

const frame = () => new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)));

export async function reveal(hits) {
  show(hits.slice(0, FIRST));
  const first = $("results").firstChild;
  await frame();
  if (first?.isConnected) append(hits.slice(FIRST));
}

// Who was at a result with the keyboard is at the first one of the following search.
let held = false;
function empty(...shown) {
  held ||= $("results").contains(document.activeElement);
  $("results").replaceChildren(...shown);
}

export function append(hits) {
  const cards = hits.map(card);
  $("results").append(...cards);
  if (held) $("results").querySelector(".open")?.focus({ preventScroll: true });
  held = false;
  frame().then(() => {
    cards.forEach((one, at) => equip(one, hits[at]));
    complete(cards, hits);
  });
}

export function drop(id) {
  $("results").querySelector(`[data-item="${CSS.escape(id)}"]`)?.remove();
}

export function showBones() {
  $("status").textContent = "Searching …";
  $("results").setAttribute("aria-busy", "true");
  empty(...Array.from({ length: 12 }, () => h("li", { class: "bones", "aria-hidden": "true" })));
}

export function clear() {
  $("results").removeAttribute("aria-busy");
  empty();
}

export function listen() {
  $("results").addEventListener("keydown", (event) => {
    const cards = [...$("results").querySelectorAll(".open")];
    const at = cards.indexOf(event.target);
    if (at < 0) return;
    const top = (one) => one.parentNode.offsetTop;
    const columns = cards.filter((one) => top(one) === top(cards[0])).length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (!step || !cards[at + step]) return;
    event.preventDefault();
    cards[at + step].focus();
  });
}
