// What the start offers beside the demo, and how far the followed folder is.

import * as api from "./api.js";
import { $, count, h, redraw } from "./dom.js";

const LOOK = 3000, REST = 10000; // ms between two looks, at work and later
const GROWTH = 60000; // ms for which a collection that was empty is looked at after each change
const STEPS = {
  naming: "New files get names and captions.",
  comparing: "Names and captions are found; files are read.",
  encoding: "Names and captions are found; pictures and shapes follow.",
  watching: "Up to date. Changes are followed.",
};
const code = (text) => h("code", {}, text);
const stateOf = ({ folder, collection }) => JSON.stringify([folder, collection.version]);
let timer = null, seen = "";
let grown = 0; // when a collection that was empty last changed
let changed = () => {};

function offer({ bundle, folder }) {
  const own = folder ? `FOLDER="…/${folder.name}" ` : "FOLDER=~/models ";
  const open = () => document.querySelector(".stock").click();
  $("banner").replaceChildren(h("strong", {}, "Demo encoder. "), `${bundle.about} For your own things:`, h("ol", {},
    !folder && h("li", {}, "your folder: ", code(`make serve ${own.trim()}`), ", or ", h("button", { class: "link", onclick: open }, "add it here")),
    h("li", {}, "a general encoder: ", code("make pull"), ", then ", code(`make serve ${own}BUNDLE=bundles/siglip2-b16-small`)),
    h("li", {}, "your own encoder: ", code("multifold train"), " and ", code("multifold export"))));
}

async function list({ target }) {
  const { refused } = await api.folder();
  target.lastChild.replaceChildren(...refused.map(({ name, reason }) => h("li", {}, h("strong", {}, name), ` ${reason}`)));
}

const LEARNED_FROM = 200; // items with captions, from which heads of the general encoder learn

function tell({ name, state, done, total, refused, captioned, trouble }, bundle) {
  const atWork = !["watching", "waiting"].includes(state);
  const box = $("folder"), open = box.querySelector("details")?.open;
  const far = total ? ` ${done.toLocaleString("en")} of ${count(total, "item")}.` : "";
  box.classList.toggle("calm", state === "watching");
  redraw(box, h("p", { class: trouble ? "bad" : null }, h("strong", {}, `Folder ${name}. `), trouble ?? STEPS[state] + far),
    state === "watching" && bundle === "general" && captioned >= LEARNED_FROM && h("p", {}, `${count(captioned, "item")} with captions can teach the encoder: `, code("make train"), ", then ", code(`.venv/bin/multifold train own --folder "…/${name}"`)),
    atWork && h("progress", { "aria-label": `Folder ${name}`, ...(total && { value: done, max: total }) }),
    refused > 0 && h("details", { ontoggle: list, open }, h("summary", { "data-key": "refused" }, `${count(refused, "file")} skipped`), h("ul", { class: "refused" })));
}

const grows = () => Date.now() - grown < GROWTH;
const later = (folder) => { timer = setTimeout(look, folder?.state === "watching" ? REST : LOOK); };

async function look() {
  const about = await api.info().catch(() => null);
  if (!about || about.folder || grows()) later(about?.folder);
  if (about && stateOf(about) !== seen) changed();
}

export function describe(about) {
  clearTimeout(timer);
  if (about.bundle.name === "furniture" && about.bundle.about) offer(about);
  $("folder").hidden = !about.folder;
  const state = stateOf(about);
  if (!about.collection.items || (grows() && state !== seen)) grown = Date.now();
  seen = state;
  if (about.folder) tell(about.folder, about.bundle.name);
  if (about.folder || grows()) later(about.folder);
}

export const listen = (onChange) => { changed = onChange; };
