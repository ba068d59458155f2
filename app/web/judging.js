// Thumbs up and down on a result: they order this search anew, and are kept where the service keeps feedback.

import { current, go, learns } from "./address.js";
import { feedback, forgetFeedback, item } from "./api.js";
import { $, h, icon, iconButton, nameOf, redraw } from "./dom.js";
import { bodyOf } from "./question.js";

const LIMIT = 10;
let keeps = false; // whether the service keeps feedback
let announce;
const announced = new Promise((resolve) => { announce = resolve; }); // when that is known
let pressed = null; // the thumb that the keyboard goes back to
const noted = new Map(); // promises of the feedback of this visit, by clues and item

const say = (text) => { $("note").textContent = text; };
const place = (id) => JSON.stringify([current().clues, id]);
const without = (id, ids) => ids.filter((one) => one !== id);

// What the thumbs say of an item now.
const verdictOf = (id) => ["good", "bad"].find((verdict) => current()[verdict].includes(id));

function learn(id, verdict) {
  if (!learns(current())) return;
  const { good, bad } = current();
  const examples = { good: without(id, good), bad: without(id, bad) };
  if (verdict) examples[verdict].push(id);
  go(examples);
}

// A thumb may be pressed before it is known whether verdicts are kept, and again before the first one is.
async function keep(hit, verdict) {
  const { kind, index } = hit.matched ?? {};
  const observation = kind ? { kind, index } : null;
  const at = place(hit.id), asked = current(), before = noted.get(at);
  const send = async () => {
    await announced;
    await before?.catch(() => {});
    return keeps ? (await feedback({ query: await bodyOf(asked, LIMIT), item: hit.id, observation, verdict, by: null })).id : null;
  };
  noted.set(at, send());
  await noted.get(at);
}

async function takeBack(id) {
  const at = place(id), verdict = verdictOf(id);
  if (verdict && !noted.has(at)) keep({ id }, verdict).catch(() => {}); // of an earlier visit: sent again, it tells its number
  const kept = noted.get(at);
  learn(id, null);
  const number = await kept?.catch(() => null);
  if (number == null) return;
  await forgetFeedback(number);
  if (noted.get(at) === kept) noted.delete(at);
}

// A second click on the same thumb takes it back.
async function judge(hit, clicked, buttons) {
  const verdict = buttons.some((button) => button.dataset.verdict === clicked && button.ariaPressed === "true") ? null : clicked;
  const kept = verdict ? keep(hit, verdict) : takeBack(hit.id);
  for (const button of buttons) button.ariaPressed = String(button.dataset.verdict === verdict);
  pressed = `${clicked} ${hit.id}`;
  if (verdict) learn(hit.id, verdict);
  say(verdict ? `Noted: ${nameOf(hit)} is a ${verdict} result.` : `Taken back: ${nameOf(hit)}.`);
  await kept.catch((error) => {
    say(error.message);
    for (const button of buttons) button.title = error.message;
  });
}

export function thumbs(hit) {
  const name = nameOf(hit);
  const now = learns(current()) ? verdictOf(hit.id) : null;
  const buttons = [["good", "A good result"], ["bad", "A bad result"]].map(([verdict, label]) =>
    iconButton("thumb", `${label}: ${name}`, () => judge(hit, verdict, buttons), { "data-verdict": verdict, "aria-pressed": String(verdict === now) }));
  const last = buttons.find(({ dataset }) => `${dataset.verdict} ${hit.id}` === pressed);
  if (last && document.activeElement === document.body) requestAnimationFrame(() => {
    last.closest(".card")?.firstChild.focus(); // what a card can do is visible only while the card has the keyboard
    last.focus();
  });
  return buttons;
}

// What this search has learned from; a click takes it back.
function example(verdict, id) {
  const name = h("span", {}, id);
  item(id).then((found) => { name.textContent = nameOf(found); }, () => {});
  return h("li", {}, h("button", { class: "chip", "data-verdict": verdict, "data-key": `${verdict} ${id}`, title: "Take back", onclick: () => takeBack(id).catch((error) => say(error.message)) },
    icon("thumb"), h("span", { class: "unseen" }, `Take back the ${verdict} example `), name));
}

// `keeping`: whether the service keeps verdicts. The style sheet hides thumbs that do nothing.
export function know(keeping) {
  keeps = keeping;
  announce();
  show(current());
}

export function show(asked) {
  const learning = learns(asked);
  document.body.classList.toggle("judged", learning || (keeps && asked.clues.length > 0));
  redraw($("judged"), ...(learning ? ["good", "bad"].flatMap((verdict) => asked[verdict].map((id) => example(verdict, id))) : []));
  $("judged").hidden = !$("judged").firstChild;
}
