// What is asked, in the address bar: ?q=words | ?like=ID&at=views/0, with &target= and &item= for the open detail.
// A file cannot be in an address; it is kept for this visit under a key in the history's state.

const files = new Map();

export function keep(file) {
  const key = `${Date.now()}-${files.size}`;
  files.set(key, file);
  return key;
}

export function current() {
  const asked = new URLSearchParams(location.search);
  const key = history.state?.file ?? null;
  return {
    words: asked.get("q") ?? "",
    like: asked.get("like"),
    at: asked.get("at") ?? "views/0",
    target: ["image", "text"].includes(asked.get("target")) ? asked.get("target") : "shape",
    item: asked.get("item"),
    key,
    file: files.get(key) ?? null,
  };
}

function address({ words, like, at, target, item }) {
  const asked = new URLSearchParams();
  if (words) asked.set("q", words);
  if (like) asked.set("like", like);
  if (like && at) asked.set("at", at);
  if (target !== "shape") asked.set("target", target);
  if (item) asked.set("item", item);
  const query = asked.toString();
  return query ? `/?${query}` : "/";
}

export function go(next) {
  history.pushState({ file: next.key ?? null, inner: Boolean(next.item) }, "", address(next));
  dispatchEvent(new PopStateEvent("popstate"));
}
