// Jobs with their progress and errors, and snapshots of the collection.

import * as api from "../api.js";
import { $, h, redraw } from "../dom.js";

const MOST = 20; // jobs, and errors of one, that are shown
const PAUSE = 1000; // ms between two looks
let timer = null;
let goingOn = new Set();
let changed = () => {};

const goesOn = ({ state }) => state === "queued" || state === "running";
const refused = (error) => h("li", { class: "bad", role: "alert" }, error.message);

function job(one) {
  const { id, kind, collection, state, done, total, errors } = one;
  const name = `${kind} of ${collection}`;
  const live = goesOn(one);
  const cancel = () => api.cancel(id).then(look, fail);
  const more = errors.length - MOST;
  return h("li", { class: state === "failed" ? "bad" : null },
    live && h("button", { class: "plain", "data-key": id, "aria-label": `Cancel ${name}`, onclick: cancel }, "Cancel"),
    h("strong", {}, name), ` ${state}${total ? `, ${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : ""}`,
    live && h("progress", { "aria-label": name, ...(total && { value: done, max: total }) }),
    h("ul", {}, ...errors.slice(0, MOST).map((error) => h("li", {}, error)), more > 0 && h("li", {}, `and ${more} more`)));
}

const fail = (error) => $("jobs").prepend(refused(error));

async function look() {
  clearTimeout(timer);
  try {
    const jobs = await api.jobs();
    redraw($("jobs"), ...(jobs.length ? jobs.slice(0, MOST).map(job) : [h("li", { class: "quiet" }, "no jobs yet")]));
    if (jobs.some((one) => goingOn.has(one.id) && !goesOn(one))) changed();
    goingOn = new Set(jobs.filter(goesOn).map(({ id }) => id));
    if (goingOn.size && $("work").open && $("collection").open) timer = setTimeout(look, PAUSE);
  } catch (error) {
    $("jobs").replaceChildren(refused(error));
  }
}

function snapshot({ name, bytes }) {
  const taken = name.replace(/^(....)(..)(..)T(..)(..).*/, "$1-$2-$3 $4:$5 UTC");
  return h("li", {}, h("a", { href: api.snapshotAt(name), download: name }, taken), h("span", { class: "quiet" }, ` ${(bytes / 1e6).toFixed(1)} MB`));
}

const list = async () => $("snapshots").replaceChildren(...(await api.snapshots()).toReversed().map(snapshot));
const failed = (error) => $("snapshots").replaceChildren(refused(error));

async function take() {
  $("snap").disabled = true;
  await api.snapshot().then(list).catch(failed);
  $("snap").disabled = false;
}

export function open(onChange) {
  changed = onChange;
  $("snap").onclick = take;
  look();
  list().catch(failed);
}
