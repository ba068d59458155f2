// The collection: what is in it, and adding files, with what was refused and why.

import { go } from "./address.js";
import * as api from "./api.js";
import { $, count, h } from "./dom.js";
import { bytesOf, chosen, drafts, formOf, unpack } from "./gather.js";

const AT_ONCE = 2;
const TRIES = 5;
const dialog = $("collection");
let upload = null; // the one under way: {stop, waiting, all, added, failed, done}
let going = Promise.resolve(), goOn = null; // while it is paused, the second ends the wait for the first
let limits = null;
let changed = () => {};

export function describe({ bundle, collection, limits: found }) {
  limits = found;
  const { view = 0, photo = 0, caption = 0 } = collection.observations;
  $("stock").textContent = count(collection.items, "item");
  const rows = { items: collection.items, views: view, photos: photo, captions: caption };
  $("counts").replaceChildren(
    ...Object.entries(rows).map(([name, number]) => h("div", {}, h("dt", {}, name), h("dd", {}, number.toLocaleString("en")))),
    h("div", { class: "wide" }, h("dt", {}, "encoder"), h("dd", {}, bundle.name)));
  $("browse").hidden = !collection.items;
}

const pause = (seconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

async function send(draft, signal) {
  if (limits && bytesOf(draft) > limits.body_bytes) throw api.tooLarge(limits.body_bytes);
  for (let tries = 1; ; tries += 1) {
    try {
      return await api.put(draft.id, await formOf(draft), signal);
    } catch (error) {
      if (error.status !== 429 || tries === TRIES || signal.aborted) throw error;
      await pause(error.wait || 1, signal);
    }
  }
}

function refuse({ name, why }, bad = true) {
  $("refused").append(h("li", { class: bad ? "bad" : null }, h("strong", {}, name), ` ${why}`));
}

function setPaused(paused) {
  goOn?.();
  goOn = null;
  if (paused) going = new Promise((resolve) => { goOn = resolve; });
  $("pause").textContent = paused ? "Go on" : "Pause";
}

function showProgress(shown) {
  for (const id of ["progress", "pause", "stop"]) $(id).hidden = !shown;
}

function offerReport() {
  const lines = [...$("refused").children].map((one) => one.textContent);
  const link = $("report").firstChild;
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }));
  $("report").hidden = !lines.length;
}

function tell() {
  const { done, all } = upload;
  Object.assign($("progress"), { value: done, max: Math.max(1, all) });
  $("adding").textContent = `${done} of ${count(all, "item")}${goOn ? ", paused" : ""}`;
}

function enqueue({ items, refused }) {
  upload.waiting.push(...items);
  upload.all += items.length;
  upload.failed += refused.length;
  refused.forEach((one) => refuse(one));
  showProgress(upload.all > 0);
  tell();
}

async function work() {
  const { signal } = upload.stop;
  for (let draft = upload.waiting.shift(); draft; draft = upload.waiting.shift()) {
    await going;
    if (signal.aborted) return;
    try {
      const { warnings } = await send(draft, signal);
      upload.added += 1;
      for (const why of warnings) refuse({ name: draft.id, why: `was added, but ${why}` }, false);
    } catch (error) {
      if (error.name === "AbortError") return;
      upload.failed += 1;
      refuse({ name: draft.id, why: error.message });
      if (error.code === "unreachable") upload.stop.abort();
    }
    upload.done += 1;
    tell();
  }
}

// Files that come while others are added are added after them.
async function add(files) {
  const found = drafts(files);
  if (upload) return enqueue(found);
  upload = { stop: new AbortController(), waiting: [], all: 0, added: 0, failed: 0, done: 0 };
  $("refused").replaceChildren();
  $("report").hidden = true;
  setPaused(false);
  enqueue(found);
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const { added, failed, stop } = upload;
  upload = null;
  const notes = [`${count(added, "item")} added`, failed && `${failed} refused`, stop.signal.aborted && "stopped"];
  $("adding").textContent = `${notes.filter(Boolean).join(", ")}.`;
  showProgress(false);
  offerReport();
  if (added) changed();
}

export const isOpen = () => dialog.open;
export const take = async (transfer) => add(await unpack(transfer.items));

export function listen(onChange) {
  changed = onChange;
  let opener = null; // it gets the keyboard back, unless it is gone
  const open = (event) => { opener = event.currentTarget; dialog.showModal(); };
  for (const button of document.querySelectorAll("[data-opens=collection]")) button.addEventListener("click", open);
  dialog.addEventListener("close", () => { if (!opener?.checkVisibility()) document.querySelector(".stock").focus(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog || event.target.closest(".close")) dialog.close(); });
  for (const input of [$("add-files"), $("add-folder")])
    input.addEventListener("change", () => { const files = chosen(input.files); input.value = ""; add(files); });
  $("stop").addEventListener("click", () => { upload?.stop.abort(); setPaused(false); });
  $("pause").addEventListener("click", () => { setPaused(!goOn); tell(); });
  $("browse").addEventListener("click", () => { dialog.close(); go({ clues: [], where: {}, all: true }); });
  addEventListener("beforeunload", (event) => { if (upload) event.preventDefault(); });
}
