// The page: the address says what is asked, everything on screen follows from it.

import { current, fileOf, go, isIdle, signature } from "./address.js";
import * as api from "./api.js";
import * as banner from "./banner.js";
import * as clues from "./clues.js";
import * as collection from "./collection.js";
import * as detail from "./detail.js";
import { $, h, isFree } from "./dom.js";
import { receive } from "./files.js";
import * as filters from "./filters.js";
import { hurry, watch } from "./health.js";
import * as key from "./key.js";
import * as results from "./results.js";
import * as searching from "./searching.js";
import * as selection from "./selection.js";
import * as strict from "./strict.js";
import * as shelf from "./shelf.js";
import * as judging from "./judging.js";
import * as sort from "./sort.js";
import * as start from "./start.js";

const EXAMPLES = [
  "a red chair with four black legs",
  "a tall white cabinet with two doors",
  "a round wooden table on one leg",
  "a lamp with a yellow shade",
];
const SIDES = { shape: "view", image: "photo", text: "caption" };

const RETRY = 2000; // ms until a service that did not answer is asked again

let about = null; // what /v1/info says
let place = current().shelf; // the collection on screen
let shown = null; // the question on screen, as text

function introduce() {
  const { bundle, collection: stock, limits } = about;
  collection.describe(about);
  banner.describe(about);
  key.describe(about);
  searching.limitTo(limits);
  judging.know(Boolean(about.feedback));
  strict.show(current());
  for (const radio of document.querySelectorAll("[name=target]")) {
    const none = radio.value in SIDES && stock.items > 0 && !stock.observations[SIDES[radio.value]];
    radio.disabled = none && !radio.checked;
    radio.parentElement.title = none ? `no item here has a ${SIDES[radio.value]}` : "";
  }
  if (bundle.name !== "furniture" || !bundle.about || about.folder) return;
  $("examples").replaceChildren(...EXAMPLES.map((words) =>
    h("button", { class: "chip", onclick: () => go({ clues: [{ words }] }) }, words)));
}

function showStart() {
  const idle = isIdle(current());
  const empty = about?.collection.items === 0;
  $("title").className = idle ? "" : "hidden";
  $("banner").hidden = !idle || !$("banner").firstChild;
  const hasChairs = filters.known().some(({ values }) => values.some(({ value }) => value === "chair")); // not so in other collections of this encoder
  $("examples").hidden = !idle || empty || !hasChairs || !$("examples").firstChild;
  $("empty").hidden = !idle || !empty;
  start.show(current(), about).catch(() => {});
}

async function follow(event) {
  const asked = current();
  if (!asked.item) detail.hide();
  if (asked.shelf !== place) {
    place = asked.shelf;
    selection.clear();
    learn().catch(() => {});
  }
  if (signature(asked) !== shown) {
    shown = signature(asked);
    searching.leave();
    clues.show(asked);
    strict.show(asked);
    sort.show(asked);
    judging.show(asked);
    showStart();
    await searching.run(asked, event?.isTrusted);
    filters.show(current());
  }
  if (!current().item) return;
  try {
    await detail.show(current().item, gone);
  } catch (error) {
    detail.hide();
    searching.say("That item is not here", [error.message], true);
  }
}

function again() {
  shown = null;
  searching.forget();
  return follow();
}

function gone(id, name) {
  searching.removed(id);
  selection.dropped(id);
  api.forget();
  detail.leave();
  $("note").textContent = `${name} (${id}) is deleted.`;
  learn();
}

function barred(error) {
  if (isIdle(current())) {
    if (error.status === 401) searching.say(...key.demand(error));
    if (error.status === 404) searching.say("That collection is not here", [error.message], true);
  }
  throw error;
}

// What the service is and has; asked again after every change.
async function learn() {
  about = await api.info().catch(barred);
  introduce();
  showStart();
  await Promise.all([filters.discover(), shelf.describe()]);
  showStart();
}

clues.listen(again);
results.listen();
filters.listen();
searching.listen(again, () => setTimeout(() => watch(() => learn().then(again)), RETRY));
strict.listen();
sort.listen();
detail.listen();
receive(clues.askWith);
shelf.listen();
const changed = () => { api.forget(); learn().then(again, () => {}); };
collection.listen(changed);
banner.listen(() => { searching.forget(); learn().catch(() => {}); });
selection.listen(changed);
key.listen(() => { searching.say(""); changed(); });
const help = async () => (await import("./ondemand/help.js")).show();
$("keys").addEventListener("click", help);
$("work").addEventListener("toggle", async () => { if ($("work").open) (await import("./ondemand/work.js")).open(changed); });
addEventListener("popstate", follow);
addEventListener("online", () => hurry(learn));
addEventListener("offline", () => hurry(learn));
addEventListener("keydown", (event) => {
  if (!"/?".includes(event.key) || !isFree(event)) return;
  event.preventDefault();
  if (event.key === "?") help();
  else $("words").focus();
});

function tellLost() {
  const lost = history.state?.clues?.some((clue) => clue.key && !fileOf(clue));
  if (lost) searching.say("The files of this search are gone", ["They are kept until the page is loaded again. Add them once more."], true);
}

follow().then(tellLost).finally(() => watch(() => learn().then(() => { if (searching.isLost() || current().sure) again(); }, () => {})));
