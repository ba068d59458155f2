// The keys of the keyboard, shown on "?".

import { h } from "../dom.js";
import { panel } from "./panel.js";

const KEYS = [
  ["/", "to the search box"], ["Arrow keys", "from result to result"], ["Enter", "open a result"], ["X", "select a result"], ["Escape", "close, or end the selection"], ["?", "these keys"],
  ["In an item", ""], ["← →", "turn it"], ["↑ ↓", "tilt the 3D view, if it has the keyboard"], ["+ −", "nearer, further"], ["W, G", "edges, grey"], ["Home", "the first view"],
];

export function show() {
  const lines = KEYS.flatMap(([key, meaning]) => (meaning ? [h("dt", {}, h("kbd", {}, key)), h("dd", {}, meaning)] : [h("dt", { class: "part" }, key), h("dd", {})]));
  panel("Keyboard", [h("dl", {}, ...lines)], { id: "help" });
}
