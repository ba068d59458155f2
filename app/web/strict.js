// How sure a result must be: a slider, shown where the service knows the confidence of what is asked.

import { go } from "./address.js";
import { $ } from "./dom.js";
import { least } from "./question.js";

const percent = (share) => `${Math.round(100 * share)} %`;
const LEAST_TOLD = 0.1; // below, a number says no more than the order
export const told = (confidence) => (confidence >= LEAST_TOLD ? percent(confidence) : null);
const say = (sure) => { $("strictness").textContent = sure ? percent(sure) : "any"; };

export function show(asked) {
  const sure = least(asked);
  $("strict").hidden = sure === null;
  $("sure").value = sure ?? 0;
  say(sure ?? 0);
}

export function listen() {
  $("sure").addEventListener("input", () => say(Number($("sure").value)));
  $("sure").addEventListener("change", () => go({ sure: Number($("sure").value) }));
}
