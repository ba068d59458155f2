// The keys of the keyboard, shown on "?".

import { $, h, isFree, panel } from "./dom.js";

const KEYS = [
  ["/", "to the search box"], ["Arrow keys", "from result to result"], ["Enter", "open a result"], ["X", "select a result"], ["Escape", "close, or end the selection"], ["?", "these keys"],
  ["In an item", ""], ["← →", "turn it"], ["↑ ↓", "tilt the 3D view, if it has the keyboard"], ["+ −", "nearer, further"], ["W, G", "edges, grey"], ["Home", "the first view"],
];

function show() {
  const lines = KEYS.flatMap(([key, meaning]) => (meaning ? [h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)] : [h("dt", { class: "part" }, key), h("dd", {})]));
  panel("Keyboard", [h("dl", {}, ...lines)], { id: "help" });
}

export function listen() {
  $("keys").addEventListener("click", show);
  addEventListener("keydown", (event) => { if (event.key === "?" && isFree(event)) { event.preventDefault(); show(); } });
}
