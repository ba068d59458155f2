// The REST API, as far as the page needs it.

import { root } from "./address.js";

export class Refusal extends Error {
  constructor(status, code, message, wait = 0) {
    super(message);
    Object.assign(this, { status, code, wait });
  }
}

export const tooLarge = (most) => new Refusal(413, "too_large", `larger than the ${most / 1048576} MiB that the service takes`);

export async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const why = navigator.onLine ? "The service does not answer. Is it still running?" : "This computer is offline.";
    throw new Refusal(0, "unreachable", why);
  }
  if (response.ok) return response.json();
  const { error = {} } = await response.json().catch(() => ({}));
  const wait = Number(response.headers.get("retry-after")) || 0;
  throw new Refusal(response.status, error.code ?? "unknown", error.message ?? `The service answered ${response.status}.`, wait);
}

export function post(path, body, signal) {
  return ask(path, { method: "POST", body: JSON.stringify(body), signal, headers: { "content-type": "application/json" } });
}

const itemAddress = (id) => `${root()}/items/${encodeURIComponent(id)}`;
const known = new Map();

export const info = () => ask(`${root()}/info`);
export const folder = () => ask(`${root()}/folder`);
export const collections = async () => (await ask("/v1/collections")).collections;
export const ready = () => ask("/readyz");
export const forget = () => known.clear();

// An item with all its sides; asked once, as long as nothing here is changed.
export function item(id) {
  const at = itemAddress(id);
  if (!known.has(at)) known.set(at, ask(at).catch((error) => { known.delete(at); throw error; }));
  return known.get(at);
}

export const similar = (id, options, signal) => post(`${itemAddress(id)}/similar`, options, signal);
export const explain = (body) => post(`${root()}/explain`, body);
export const traverse = (body) => post(`${root()}/traverse`, body);
export const facets = (keys, filter, query) => post(`${root()}/facets`, { keys, filter, limit: 50, ...query });
export const scroll = (body, signal) => post(`${root()}/items/scroll`, body, signal);
export const jobs = async () => (await ask("/v1/jobs")).jobs;
export const cancel = (id) => post(`/v1/jobs/${encodeURIComponent(id)}/cancel`);
export const snapshots = async () => (await ask(`${root()}/snapshots`)).snapshots;
export const snapshotAt = (name) => `${root()}/snapshots/${name}`;
export const snapshot = () => post(`${root()}/snapshots`);
export const feedback = (body) => post(`${root()}/feedback`, body);
export const forgetFeedback = (id) => ask(`${root()}/feedback/${id}`, { method: "DELETE" });
export const counted = async (filter) => (await post(`${root()}/items/count`, { filter })).count;
export const patch = (id, body) => ask(itemAddress(id), { method: "PATCH", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
export const smallOf = ({ kind, url }) => (kind === "photo" ? `${url}&small=true` : url); // of every kind of file, as WebP
export const thumbnailOf = (id) => `${itemAddress(id)}/thumbnail`;
export const modelOf = ({ id, files: [first] }) => first && `${itemAddress(id)}/model${new URL(first.url, location).search}`;
export const archiveOf = (ids) => `${root()}/archive?${new URLSearchParams(ids.map((id) => ["id", id]))}`;
export const enter = (key) => post("/v1/session", { key });
export const leave = () => ask("/v1/session", { method: "DELETE" });
export const remove = (id) => ask(itemAddress(id), { method: "DELETE" });
export const put = (id, form, signal) => ask(itemAddress(id), { method: "PUT", body: form, signal });
