// The page: the address says what is asked, everything on screen follows from it.

import * as address from "./address.js";
import * as api from "./api.js";
import * as detail from "./detail.js";
import { $, h } from "./dom.js";
import { receive } from "./files.js";
import * as results from "./results.js";

const STEP = 24;
const EXAMPLES = [
  "a red chair with four black legs",
  "a tall white cabinet with two doors",
  "a round wooden table on one leg",
  "a blue sofa with armrests",
  "a lamp with a yellow shade",
  "a shelf with a vase on it",
];
const SIDES = { shape: "view", image: "photo", text: "caption" };

let about = null; // what /v1/info says
let limit = STEP;
let shown = null; // the question on screen, as text
let hits = [];
let waiting = null; // aborts the search under way

function say(title, lines = [], bad = false) {
  $("message").hidden = !title;
  $("message").className = bad ? "message bad" : "message";
  $("message").replaceChildren(...(title ? [h("h2", {}, title), ...lines.map((line) => h("p", {}, line))] : []));
}

function introduce() {
  const { bundle, collection } = about;
  $("stock").textContent = `${collection.items.toLocaleString("en")} items`;
  for (const radio of document.querySelectorAll("[name=target]")) {
    const none = !collection.observations[SIDES[radio.value]];
    radio.disabled = none && collection.items > 0;
    if (radio.disabled) radio.parentElement.title = `no item here has a ${SIDES[radio.value]}`;
  }
  if (bundle.name === "furniture" && bundle.about) {
    $("banner").hidden = false;
    $("banner").replaceChildren(h("strong", {}, "Demo encoder. "), `${bundle.about} For anything else, `,
      "train your own with ", h("code", {}, "multifold train"), " and ", h("code", {}, "multifold export"),
      " (the repository’s ", h("code", {}, "docs/"), " show how).");
    $("examples").replaceChildren(...EXAMPLES.map((words) =>
      h("button", { type: "button", class: "chip", onclick: () => address.go({ words, target: target() }) }, words)));
  }
}

const target = () => document.querySelector("[name=target]:checked").value;

function showQuestion(asked) {
  $("title").className = asked.words || asked.like || asked.file ? "hidden" : "";
  const name = asked.file?.name ?? (asked.like ? `like ${asked.like}` : "");
  $("words").value = asked.words;
  $("words").hidden = Boolean(name);
  $("attached").hidden = !name;
  $("attached-name").textContent = name;
  const picture = $("attached-picture");
  if (picture.src.startsWith("blob:")) URL.revokeObjectURL(picture.src);
  picture.removeAttribute("src");
  if (asked.like) picture.src = `/v1/items/${encodeURIComponent(asked.like)}/${asked.at}`;
  else if (asked.file && !api.isMesh(asked.file)) picture.src = URL.createObjectURL(asked.file);
  document.querySelector(`[name=target][value=${asked.target}]`).checked = true;
  document.title = asked.words ? `${asked.words} · Multifold` : "Multifold";
}

function showStart() {
  results.clear();
  $("status").textContent = "";
  const empty = about && about.collection.items === 0;
  $("examples").hidden = empty || !$("examples").children.length;
  if (empty) say("Nothing here yet", ["Fill the collection with: multifold ingest MANIFEST"]);
  else say("");
}

async function showResults(asked) {
  waiting?.abort();
  waiting = new AbortController();
  const { signal } = waiting;
  $("examples").hidden = true;
  $("more").hidden = true;
  $("status").textContent = "Searching …";
  say("");
  if (limit === STEP) results.showBones();
  try {
    const file = asked.file ?? (asked.like ? await api.pictureOf(asked.like, asked.at) : null);
    if (file && about && file.size > about.limits.body_bytes) {
      throw new api.Refusal(413, "too_large", `The file is larger than ${about.limits.body_bytes / 1048576} MiB.`);
    }
    const answer = await api.search({ ...asked, file, limit }, signal);
    showAnswer(answer, asked);
  } catch (error) {
    if (error.name === "AbortError") return;
    shown = null;
    results.clear();
    $("status").textContent = "";
    const mendable = error.status >= 400 && error.status < 500;
    say(mendable ? "That cannot be searched with" : "Something went wrong", [error.message], true);
  }
}

function showAnswer(answer, asked) {
  hits = answer.hits;
  const count = `${hits.length} ${hits.length === 1 ? "result" : "results"}`;
  const notes = [count, `${Math.round(answer.took_ms.total)} ms`, ...answer.warnings];
  $("status").textContent = notes.join(" · ");
  results.show(hits, (hit) => address.go({ ...address.current(), item: hit.id }));
  const most = Math.min(about?.limits.hits ?? limit, about?.collection.items ?? limit);
  $("more").hidden = hits.length < limit || limit >= most;
  if (!hits.length) say("Nothing found", [`No item here has a ${SIDES[asked.target]} to compare with.`]);
}

async function showDetail(asked) {
  if (!asked.item) return detail.hide();
  const matched = hits.find((hit) => hit.id === asked.item)?.matched;
  const close = () => (history.state?.inner ? history.back() : address.go({ ...address.current(), item: null }));
  const more = (like, at) => { scrollTo(0, 0); address.go({ like, at, target: target() }); };
  try {
    await detail.show(asked.item, matched, { close, more });
  } catch (error) {
    detail.hide();
    say("That item is not here", [error.message], true);
  }
}

async function follow() {
  const asked = address.current();
  const question = JSON.stringify([asked.words, asked.like, asked.like && asked.at, asked.key, asked.target]);
  if (question !== shown) {
    shown = question;
    limit = STEP;
    showQuestion(asked);
    if (asked.words || asked.like || asked.file) await showResults(asked);
    else { waiting?.abort(); showStart(); }
  }
  await showDetail(asked);
}

function askWith(file) {
  address.go({ key: address.keep(file), target: target() });
}

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const asked = address.current();
  if (asked.like || asked.file) { shown = null; follow(); return; }
  const words = $("words").value.trim();
  if (words === asked.words) shown = null;
  if (words) address.go({ words, target: target() });
  else $("words").focus();
});
for (const radio of document.querySelectorAll("[name=target]")) {
  radio.addEventListener("change", () => {
    const asked = address.current();
    const words = asked.like || asked.file ? "" : $("words").value.trim();
    address.go({ ...asked, words, target: target(), item: null });
  });
}
$("detach").addEventListener("click", () => { address.go({ target: target() }); $("words").focus(); });
$("more").addEventListener("click", () => { limit = Math.min(limit + STEP, about?.limits.hits ?? limit); showResults(address.current()); });
addEventListener("keydown", (event) => {
  if (event.key !== "/" || /INPUT|TEXTAREA/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  $("words").focus();
});
addEventListener("popstate", follow);
receive(askWith);

api.info().then((found) => { about = found; introduce(); if (!shown || !hits.length) showExamplesIfIdle(); }, () => {});
follow();

function showExamplesIfIdle() {
  const asked = address.current();
  if (!asked.words && !asked.like && !asked.file) showStart();
}
