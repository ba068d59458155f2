// What the start offers beside the demo, and how far the folder is that the service follows.

import * as api from "./api.js";
import { $, count, h } from "./dom.js";

const LOOK = 3000, REST = 10000; // ms between two looks: while it is at work, and later
const STEPS = {
  naming: "New files get their names and captions.",
  comparing: "Names and captions are found. The files are read.",
  encoding: "Names and captions are found. Pictures and shapes follow.",
  watching: "Up to date. Changes are followed.",
};
const code = (text) => h("code", {}, text);
const stateOf = ({ folder, collection }) => JSON.stringify([folder, collection.version]);
let timer = null, seen = "";
let changed = () => {};

function offer({ bundle, folder }) {
  const own = "FOLDER=~/models";
  const open = () => document.querySelector(".stock").click();
  $("banner").replaceChildren(h("strong", {}, "Demo encoder. "), `${bundle.about} For your own things:`, h("ol", {},
    !folder && h("li", {}, "your folder: ", code(`make serve ${own}`), ", or ", h("button", { class: "link", onclick: open }, "add it here")),
    h("li", {}, "a general encoder: ", code("make pull"), ", then ", code(`make serve ${own} BUNDLE=bundles/siglip2-b16-small`)),
    h("li", {}, "your own encoder: ", code("multifold train"), " and ", code("multifold export"))));
}

async function list({ target }) {
  const { refused } = await api.folder();
  target.lastChild.replaceChildren(...refused.map(({ name, reason }) => h("li", {}, h("strong", {}, name), ` ${reason}`)));
}

function tell({ name, state, done, total, refused, trouble }) {
  const atWork = state === "naming" || state === "comparing" || state === "encoding";
  const box = $("folder"), open = box.querySelector("details")?.open;
  const far = total ? ` ${done.toLocaleString("en")} of ${count(total, "item")}.` : "";
  box.hidden = false;
  box.replaceChildren(...[h("p", { class: trouble ? "bad" : null }, h("strong", {}, `Folder ${name}. `), trouble ?? STEPS[state] + far),
    atWork && h("progress", { "aria-label": `Folder ${name}`, ...(total && { value: done, max: total }) }),
    refused > 0 && h("details", { ontoggle: list, open }, h("summary", {}, `${count(refused, "file")} not taken in`), h("ul", { class: "refused" }))].filter(Boolean));
}

async function look() {
  const about = await api.info().catch(() => null);
  if (about && stateOf(about) !== seen) changed();
  else timer = setTimeout(look, about?.folder?.state === "watching" ? REST : LOOK);
}

export function describe(about) {
  clearTimeout(timer);
  if (about.bundle.name === "furniture" && about.bundle.about) offer(about);
  $("folder").hidden = true;
  if (!about.folder) return;
  seen = stateOf(about);
  tell(about.folder);
  timer = setTimeout(look, about.folder.state === "watching" ? REST : LOOK);
}

export function listen(onChange) {
  changed = onChange;
}
