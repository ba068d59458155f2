// Whether the service can be asked, and a note on the page as long as it cannot.

import { ready } from "./api.js";
import { $, h } from "./dom.js";

const FIRST = 2, LONGEST = 15; // seconds between two tries
let timer = null;
let waiting = null; // who is told when the service is back

// Tells `back` when the service is there (again).
export async function watch(back, wait = FIRST) {
  clearTimeout(timer);
  waiting = back;
  try {
    await ready();
    waiting = null;
    $("health").hidden = true;
    back();
  } catch (error) {
    const title = error.status === 503 ? "The service is not ready. " : navigator.onLine ? "The service does not answer. " : "You are offline. ";
    const why = error.status === 503 ? `${error.message} ` : "";
    const again = h("button", { class: "plain", onclick: () => watch(back) }, "Try now");
    $("health").hidden = false;
    $("health").replaceChildren(h("p", {}, h("strong", {}, title), why, "Retrying …"), again);
    timer = setTimeout(() => watch(back, Math.min(LONGEST, 2 * wait)), 1000 * wait);
  }
}

// Asks at once, for whoever waits already or else for this one.
export const hurry = (back) => watch(waiting ?? back);
