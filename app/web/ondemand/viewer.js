// A mesh in 3D: drag or arrow keys turn it, the wheel, two fingers, + and − zoom; its edges; grey. Loaded only when a mesh is shown.

import { $, h } from "../dom.js";
import { matrices, orbit } from "./camera.js";
import { painter } from "./drawing.js";
import { readGlb } from "./glb.js";

const STEP = 0.15, ZOOM = 1.15; // of one key press
const A_PIXEL = 0.01; // radians
const SHARPEST = 2; // pixels of the canvas in one of the page

export { orbit };

function dress() {
  if ($("viewer-style")) return null;
  const sheet = h("link", { id: "viewer-style", rel: "stylesheet", href: "/web/ondemand/viewer.css" });
  const there = new Promise((done) => { sheet.onload = sheet.onerror = done; });
  document.head.append(sheet);
  return there;
}

// One finger or the mouse turns, two fingers zoom.
function follow(canvas, camera) {
  const fingers = new Map();
  const gap = () => { const [one, other] = [...fingers.values()]; return Math.hypot(one.x - other.x, one.y - other.y); };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  canvas.addEventListener("pointermove", (event) => {
    const former = fingers.get(event.pointerId);
    if (!former) return;
    const before = fingers.size === 2 ? gap() : 0;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (before) camera.zoom(before / Math.max(1, gap()));
    else if (fingers.size === 1) camera.move(-(event.clientX - former.x) * A_PIXEL, (event.clientY - former.y) * A_PIXEL);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    camera.zoom(Math.exp(wheelOf(event) / 600));
  }, { passive: false });
}

const wheelOf = ({ deltaY, deltaMode }) => Math.max(-200, Math.min(200, deltaMode ? 30 * deltaY : deltaY));

// The viewer of the GLB file at an address; several may share a camera. Throws where it cannot be shown.
export async function open(address, name, camera = orbit()) {
  const [response] = await Promise.all([fetch(address), dress()]);
  if (!response.ok) throw new Error(`the service answered ${response.status}`);
  const canvas = h("canvas", { class: "mesh", tabindex: "0", role: "application", "aria-label": `${name} in 3D: arrow keys turn it, + and − zoom` });
  const brush = painter(canvas, await readGlb(await response.arrayBuffer()));
  if (!brush) throw new Error("this browser has no WebGL");
  const style = { wire: false, grey: false };
  let asked = false;

  function draw() {
    asked = false;
    const scale = Math.min(SHARPEST, devicePixelRatio);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.round(side * scale));
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    brush.paint(...matrices(camera, width / height), style);
    Object.assign(canvas.dataset, { turn: camera.turn.toFixed(2), rise: camera.rise.toFixed(2), near: camera.near.toFixed(2) });
  }
  const again = () => { if (!asked) { asked = true; requestAnimationFrame(draw); } };

  const tool = (label, act) => h("button", { onclick: act }, label);
  const toggle = (label, key) => {
    const button = tool(label, () => { style[key] = !style[key]; button.setAttribute("aria-pressed", String(style[key])); again(); });
    button.setAttribute("aria-pressed", "false");
    return button;
  };
  const wire = toggle("Edges", "wire"), grey = toggle("Grey", "grey");
  const tools = h("div", { class: "tools", role: "group", "aria-label": "3D view" },
    wire, grey, h("button", { "aria-label": "Nearer", onclick: () => camera.zoom(1 / ZOOM) }, "+"), h("button", { "aria-label": "Further", onclick: () => camera.zoom(ZOOM) }, "−"), tool("Reset", camera.reset));

  const acts = {
    ArrowLeft: () => camera.move(-STEP, 0), ArrowRight: () => camera.move(STEP, 0), ArrowUp: () => camera.move(0, STEP), ArrowDown: () => camera.move(0, -STEP),
    "+": () => camera.zoom(1 / ZOOM), "=": () => camera.zoom(1 / ZOOM), "-": () => camera.zoom(ZOOM), Home: camera.reset, w: () => wire.click(), g: () => grey.click(),
  };
  // Whether a key was meant for the viewer.
  function keys(event) {
    const act = acts[event.key] ?? acts[event.key.toLowerCase()];
    const vertical = event.key === "ArrowUp" || event.key === "ArrowDown"; // else they scroll
    if (!act || event.ctrlKey || event.metaKey || event.altKey || (vertical && event.target !== canvas)) return false;
    event.preventDefault();
    act();
    return true;
  }

  camera.watchers.add(again);
  follow(canvas, camera);
  const sizes = new ResizeObserver(again);
  sizes.observe(canvas);
  const close = () => { camera.watchers.delete(again); sizes.disconnect(); brush.close(); };
  return { canvas, tools, keys, close };
}
