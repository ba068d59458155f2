// Words of the search that are read as filters: each can be changed in the box, or be text again.

import { current, go } from "../address.js";
import { $, h, iconButton, redraw } from "../dom.js";

function change(words) {
  const box = $("words"), at = box.value.indexOf(words);
  box.focus();
  if (at >= 0) box.setSelectionRange(at, at + words.length);
}

const filter = (words) => h("li", { class: "clue" },
  h("button", { class: "face", title: "Change it", "data-key": `change ${words}`, onclick: () => change(words) }, words),
  iconButton("cross", `No filter: search for the words “${words}”`, () => go({ asText: [...current().asText, words] }), { "data-key": `text ${words}` }));

const text = (words) => h("li", {},
  h("button", { class: "chip", "data-key": `filter ${words}`, onclick: () => go({ asText: current().asText.filter((one) => one !== words) }) }, `Filter by “${words}”`));

export function show(conditions) {
  redraw($("understood"), ...conditions.map(({ words }) => filter(words)), ...current().asText.map(text));
}
