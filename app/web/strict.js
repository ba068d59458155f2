// How sure a result must be: a slider, shown where the service knows the confidence of what is asked.

import { go } from "./address.js";
import { $ } from "./dom.js";
import { least } from "./question.js";

const percent = (share) => `${Math.round(100 * share)} %`;
export const told = (confidence) => (confidence < 0.01 ? "< 1 %" : percent(confidence));
const say = (sure) => { $("strictness").textContent = sure ? `at least ${percent(sure)} sure` : "all results"; };

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
