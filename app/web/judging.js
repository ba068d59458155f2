// Thumbs up and down on a result, where the service keeps what is thought of its answers.

import { current } from "./address.js";
import { feedback } from "./api.js";
import { $, iconButton, nameOf } from "./dom.js";
import { bodyOf } from "./question.js";

const LIMIT = 10;

// `keeps`: whether the service keeps verdicts; if not, the style sheet hides the thumbs.
export const know = (keeps) => document.body.classList.toggle("keeps", keeps);
export const show = ({ clues }) => document.body.classList.toggle("asked", clues.length > 0);

async function judge(hit, verdict, buttons) {
  const { kind, index } = hit.matched ?? {};
  try {
    const observation = kind ? { kind, index } : null;
    await feedback({ query: await bodyOf(current(), LIMIT), item: hit.id, observation, verdict, by: null });
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.verdict === verdict));
    $("note").textContent = `Noted: ${nameOf(hit)} is a ${verdict} result.`;
  } catch (error) {
    $("note").textContent = error.message;
    for (const button of buttons) button.title = error.message;
  }
}

export function thumbs(hit) {
  const name = nameOf(hit);
  const buttons = [["good", "A good result"], ["bad", "A bad result"]].map(([verdict, label]) =>
    iconButton("thumb", `${label}: ${name}`, () => judge(hit, verdict, buttons), { "data-verdict": verdict, "aria-pressed": "false" }));
  return buttons;
}
