// The order. Lists are sorted by the service; of a search, the best are sorted by the page.

import { go, isIdle, learns } from "./address.js";
import { $, h } from "./dom.js";

let keys = []; // [key of the payload that has numbers, its name]

export const NUMBER = /^(-?)payload\.(.+)$/s;
export const sortOf = ({ clues, sort }) => (NUMBER.test(sort) || sort === (clues.length ? "name" : "newest") ? sort : "");

export function show(asked) {
  const of = asked.clues.length ? [["", "best match"], ["name", "name"]] : [["", "id"], ["newest", "newest first"]];
  const all = [...of, ...keys.flatMap(([key, name]) => [[`payload.${key}`, `${name}, low first`], [`-payload.${key}`, `${name}, high first`]])];
  const chosen = sortOf(asked);
  if (!all.some(([sort]) => sort === chosen)) all.push([chosen, chosen]);
  $("sort").replaceChildren(...all.map(([sort, name]) => h("option", { value: sort, selected: sort === chosen }, `Sort: ${name}`)));
  $("bar").hidden = isIdle(asked);
  $("fold").checked = asked.fold;
  $("fold").parentElement.hidden = !asked.clues.length;
  $("options").classList.toggle("chosen", asked.target !== "item" || asked.sure > 0 || asked.fold || asked.diversity > 0 || chosen !== "");
  $("diversity").value = asked.diversity;
  $("diversity").parentElement.hidden = !learns(asked);
}

export function learn(found, asked) {
  keys = found;
  show(asked);
}

export function listen() {
  $("sort").addEventListener("change", () => go({ sort: $("sort").value }));
  $("fold").addEventListener("change", () => go({ fold: $("fold").checked }));
  $("diversity").addEventListener("change", () => go({ diversity: Number($("diversity").value) }));
}
