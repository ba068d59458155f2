// Items that are selected: their originals as one file, tags, two side by side.

import * as api from "./api.js";
import { $, count, h, iconButton, isFree } from "./dom.js";

const MOST = 100; // as many as an address can name
const chosen = new Map(); // names by id
let changed = () => {};

function mark(id, isChosen) {
  const card = document.querySelector(`.card[data-item="${CSS.escape(id)}"]`);
  if (!card) return;
  card.classList.toggle("chosen", isChosen);
  const input = card.querySelector(".pick input");
  if (input) input.checked = isChosen;
}

function choose(id, name, isChosen) {
  if (isChosen && chosen.size === MOST) {
    mark(id, false);
    return tell(`At most ${MOST} items can be selected.`);
  }
  if (isChosen) chosen.set(id, name);
  else chosen.delete(id);
  mark(id, isChosen);
  show();
}

// What a card is selected by.
export function box(id, name) {
  const input = h("input", { type: "checkbox", "aria-label": `Select ${name}`, onchange: () => choose(id, name, input.checked) });
  input.checked = chosen.has(id);
  input.closest(".card")?.classList.toggle("chosen", input.checked);
  return h("label", { class: "pick" }, input);
}

const tell = (words) => { $("note").textContent = words; };

export function clear() {
  const ids = [...chosen.keys()];
  chosen.clear();
  ids.forEach((id) => mark(id, false));
  show();
}

function tagged(words) {
  tell(`${count(chosen.size, "item")} tagged: ${words.join(", ")}.`);
  clear();
  changed();
}

function show() {
  const ids = [...chosen.keys()];
  document.body.classList.toggle("picking", ids.length > 0);
  $("picked").hidden = !ids.length;
  $("picked").replaceChildren(
    h("strong", { role: "status" }, `${ids.length} selected`),
    h("a", { class: "plain", href: api.archiveOf(ids), download: "multifold.zip" }, "Download"),
    h("button", { class: "plain", onclick: async (event) => { event.target.disabled = true; (await import("./ondemand/tags.js")).ask($("picked"), ids, tagged); } }, "Add tags"),
    h("button", { class: "plain", disabled: ids.length !== 2, onclick: async () => (await import("./ondemand/compare.js")).compare(ids) }, ids.length === 2 ? "Compare" : "Compare two"),
    iconButton("cross", "End the selection", clear));
}

export const dropped = (id) => { if (chosen.delete(id)) show(); };

export function listen(onChange) {
  changed = onChange;
  addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && chosen.size && !event.target.closest("details")) clear();
    const card = event.key.toLowerCase() === "x" && isFree(event) && event.target.classList.contains("open") && event.target.closest(".card");
    card?.querySelector?.(".pick input")?.click();
  });
}
