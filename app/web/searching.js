// Runs searches, a page at a time. Answers are kept, so that going back is at once.

import { isIdle, signature } from "./address.js";
import { counted, tooLarge } from "./api.js";
import { $, count, h } from "./dom.js";
import { demand } from "./key.js";
import { copier } from "./copying.js";
import { browse, filterOf, least, search, weightInBytes } from "./question.js";
import * as results from "./results.js";
import { sortOf } from "./sort.js";

const STEP = 24;
const BEST = 100; // of a search that are sorted
const KEPT = 12;
const SLOW_MS = 150;
const REST = 5; // seconds until a page that failed is asked for again
const kept = new Map(); // answers by signature, youngest last
let shown = null; // the answer on screen: {asked, hits, next, offset, done, status, top}
let waiting = null; // aborts the search under way
let limits = null;
let later = 0; // when a service that was busy is asked again
let lost = false; // the search failed for no fault of its own
let again = () => {}, away = () => {}; // asks once more; waits for the service

export const limitTo = (found) => { limits = found; };
export const isLost = () => lost;
export const hitOf = (id) => shown?.hits.find((hit) => hit.id === id);
export const isShown = () => shown !== null;
export const command = async () => (await import("./ondemand/curl.js")).curl(shown.asked, stepOf(shown.asked));

// A search in another order than its own is one page.
const isSorted = (asked) => asked.clues.length > 0 && sortOf(asked) !== "";
const stepOf = (asked) => (isSorted(asked) ? BEST : STEP);

export function say(title, lines = [], bad = false) {
  $("message").hidden = !title;
  $("message").className = bad ? "message bad" : "message";
  $("message").replaceChildren(...(title ? [h("h2", {}, title), ...lines.map((line) => (line instanceof Node ? line : h("p", {}, line)))] : []));
}

async function page(answer, signal) {
  const { asked, offset, next } = answer;
  if (!asked.clues.length) return browse(asked, STEP, next, signal);
  if (limits && weightInBytes(asked) > limits.body_bytes)
    throw tooLarge(limits.body_bytes);
  return search(asked, stepOf(asked), offset, signal);
}

async function extend(answer) {
  waiting?.abort();
  waiting = new AbortController();
  const { signal } = waiting;
  const { asked } = answer;
  const filter = filterOf(asked.where);
  const [got, fitting] = await Promise.all([page(answer, signal), answer.fitting ?? (filter ? counted(filter) : null)]);
  const seen = new Set(answer.hits.map((hit) => hit.id));
  const fresh = got.hits.filter((hit) => !seen.has(hit.id));
  const hits = isSorted(asked) ? await (await import("./ondemand/sorted.js")).sorted(fresh, sortOf(asked)) : fresh;
  if (signal.aborted) throw new DOMException("gone", "AbortError");
  answer.hits.push(...hits);
  answer.offset += STEP;
  answer.next = got.next;
  answer.fitting = fitting;
  answer.done = asked.clues.length ? isSorted(asked) || got.hits.length < STEP || answer.offset > (limits?.offset ?? 10000) : !got.next;
  answer.took ??= got.took_ms?.total;
  answer.warnings = got.warnings ?? [];
  answer.well ??= got.matches_well;
  answer.understood ??= got.understood;
  return fresh;
}

function tell(answer) {
  const { asked, hits, done, took, fitting, warnings, understood } = answer;
  const notes = [isSorted(asked) && hits.length === BEST ? `the best ${BEST}, sorted` : done ? count(hits.length, "result") : `${hits.length}+ results`];
  if (fitting != null) notes.push(`${count(fitting, "item fits", "items fit")} the filters`);
  if (took != null) notes.push(`${took < 10 ? took.toFixed(1) : Math.round(took)} ms`);
  $("status").textContent = [...notes, ...warnings].join(" · ");
  $("copy").replaceChildren(hits.length ? copier("Copy as curl", command) : "");
  if (understood || asked.asText.length) showUnderstood(understood?.conditions ?? []);
  $("more").hidden = done;
  if (!hits.length) sayNothingFound(answer);
  else if (answer.well === false) say("Nothing matches well", ["These are the closest results."]);
}

async function showUnderstood(conditions) {
  (await import("./ondemand/understood.js")).show(conditions);
  $("understood").hidden = false;
}

function sayNothingFound({ asked, fitting }) {
  const side = { shape: "a shape", image: "a photo", text: "a caption", any: "anything", item: "anything" }[asked.target];
  if (fitting === 0) say("No item fits these filters", ["Remove a filter."]);
  else if (asked.clues.length && least(asked)) say("Nothing matches well", [`No item is ${Math.round(100 * asked.sure)} % sure or more to be what was meant. Lower the minimum confidence to see what comes nearest.`]);
  else if (asked.clues.length) say("Nothing to compare with", [`No item ${fitting == null ? "here" : "that fits the filters"} has ${side}. Compare with another side.`]);
  else say("Nothing here yet", ["Add files by the button at the top."]);
}

// A service that says how long to wait is asked again then.
function fail(error, { clues }) {
  if (error.name === "AbortError") return;
  results.clear();
  $("status").textContent = "";
  const refused = error.status >= 400 && error.status < 500 && !error.wait;
  lost = !refused;
  if (error.status === 401) return say(...demand(error, again));
  const retry = h("button", { class: "plain", onclick: again }, "Try again");
  const why = clues.some(({ key }) => key) ? "This file cannot be used as a query" : "This cannot be searched for";
  const title = refused ? why : error.status === 429 ? "The service is busy" : "Something went wrong";
  say(title, [error.message, error.wait > 0 && `Asked again in ${error.wait} s.`, lost && retry].filter(Boolean), true);
  if (error.wait) later = setTimeout(again, 1000 * error.wait);
  if (error.code === "unreachable") away();
}

// Where the answer on screen is left.
export function leave() {
  if (shown) shown.top = scrollY;
}

// `back`: it is shown where it was left.
export async function run(asked, back) {
  waiting?.abort();
  clearTimeout(later);
  $("copy").replaceChildren();
  $("more").hidden = $("understood").hidden = true;
  $("status").textContent = "";
  say("");
  shown = null;
  lost = false;
  if (isIdle(asked)) return results.clear();
  const key = signature(asked);
  const former = kept.get(key);
  if (former) {
    shown = former;
    results.show(former.hits);
    tell(former);
    scrollTo(0, back ? (former.top ?? 0) : 0);
    return;
  }
  const slow = setTimeout(results.showBones, SLOW_MS);
  scrollTo(0, 0);
  const answer = { asked, hits: [], offset: 0, next: null, done: false };
  try {
    await extend(answer);
  } catch (error) {
    return fail(error, asked);
  } finally {
    clearTimeout(slow);
  }
  kept.set(key, answer);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  shown = answer;
  await results.reveal(answer.hits);
  if (shown === answer) tell(answer);
}

// Returns the seconds to rest before it is asked for again.
async function further() {
  const answer = shown;
  if (!answer || answer.done || answer.busy) return 0;
  let rest = 0;
  answer.busy = true;
  $("more").textContent = "Loading …";
  try {
    results.append(await extend(answer));
    tell(answer);
  } catch (error) {
    if (error.name !== "AbortError") {
      $("status").textContent = error.message;
      rest = error.wait || REST;
    }
  }
  answer.busy = false;
  $("more").textContent = "Show more";
  return rest;
}

// What is kept is out of date: something was written.
export function forget() {
  kept.clear();
}

export function removed(id) {
  forget();
  results.drop(id);
  if (!shown) return;
  shown.hits = shown.hits.filter((hit) => hit.id !== id);
  shown.offset -= 1;
  tell(shown);
}

export function listen(onAgain, onAway) {
  [again, away] = [onAgain, onAway];
  $("more").addEventListener("click", further);
  // Again after each page: in a tall window its end stays in sight, and nothing would change.
  const end = new IntersectionObserver(async ([seen]) => {
    if (!seen.isIntersecting || $("more").hidden) return;
    end.unobserve($("more"));
    const rest = await further();
    setTimeout(() => end.observe($("more")), 1000 * rest);
  }, { rootMargin: "600px" });
  end.observe($("more"));
  history.scrollRestoration = "manual";
}
