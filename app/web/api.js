// The REST API, as far as the page needs it.

export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const MESH = /\.(glb|gltf|obj|ply|stl|off)$/i;
export const isMesh = (file) => MESH.test(file.name) || file.type.startsWith("model/");

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "unreachable", "The service does not answer. Is it still running?");
  }
  if (response.ok) return response.json();
  const { error = {} } = await response.json().catch(() => ({}));
  throw new Refusal(response.status, error.code ?? "unknown", error.message ?? `The service answered ${response.status}.`);
}

export const info = () => ask("/v1/info");

const itemAddress = (id) => `/v1/items/${encodeURIComponent(id)}`;
const known = new Map();

// An item with all its sides; asked once, as long as the page is open.
export function item(id) {
  if (!known.has(id)) known.set(id, ask(itemAddress(id)).catch((error) => { known.delete(id); throw error; }));
  return known.get(id);
}

// One picture of an item as a file, to search with.
export async function pictureOf(id, place) {
  const response = await fetch(`${itemAddress(id)}/${place}`);
  if (!response.ok) throw new Refusal(response.status, "not_found", "That picture is not here any more.");
  const blob = await response.blob();
  return new File([blob], `${id} ${place}`, { type: blob.type });
}

export function search({ words, file, target, limit }, signal) {
  if (!file) {
    const body = JSON.stringify({ text: words, target, limit });
    return ask("/v1/search", { method: "POST", body, signal, headers: { "content-type": "application/json" } });
  }
  const body = new FormData();
  body.append(isMesh(file) ? "mesh" : "image", file);
  body.append("target", target);
  body.append("limit", limit);
  return ask("/v1/search", { method: "POST", body, signal });
}
