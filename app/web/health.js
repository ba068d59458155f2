// Whether the service can be asked, and a note on the page as long as it cannot.

import { ready } from "./api.js";
import { $, h } from "./dom.js";

const FIRST = 2, LONGEST = 15; // seconds between two tries
let timer = null;

// Tells `back` when the service is there (again).
export async function watch(back, wait = FIRST) {
  clearTimeout(timer);
  try {
    await ready();
    $("health").hidden = true;
    back();
  } catch (error) {
    const title = error.status === 503 ? "The service is not ready. " : navigator.onLine ? "The service does not answer. " : "You are offline. ";
    const why = error.status === 503 ? `${error.message} ` : "";
    const again = h("button", { class: "plain", onclick: () => watch(back) }, "Try now");
    $("health").hidden = false;
    $("health").replaceChildren(h("p", {}, h("strong", {}, title), why, "Trying again by itself …"), again);
    timer = setTimeout(() => watch(back, Math.min(LONGEST, 2 * wait)), 1000 * wait);
  }
}
