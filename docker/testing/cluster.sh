# Many machines, sourced by `docker/test`: the profile `cluster` of compose.yaml, on stand-ins for what is not ours.
many="localhost/multifold-serve:$TAG-cluster"

cluster() { compose --file "$work/docker/compose.yaml" --profile cluster "$@"; }
of() { podman ps --all --quiet --filter "$(label)" --filter "label=com.docker.compose.service=$1"; }
process() { podman inspect --format '{{.State.Pid}}' "$(of "$1")"; }

cluster_up() { # it is up when both replicas are healthy
  cluster up --detach --no-build --pull never proxy >"$work/up" 2>&1 || {
    cat "$work/up"
    for service in postgres bucket milvus serve-1 serve-2; do cluster logs --tail 20 "$service" || true; done
    exit 1
  }
  for _ in $(seq 60); do
    if request /readyz >/dev/null 2>&1; then return; fi
    sleep 1
  done
  cluster logs --tail 5 proxy serve-1 serve-2
  fail "the proxy finds no replica"
}

check_all_confined() {
  local service
  for service in proxy serve-1 serve-2 postgres bucket milvus; do
    podman exec "$(of "$service")" cat /proc/1/status >"$work/status"
    ! grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):.*[1-9a-f]' "$work/status" || fail "$service has capabilities"
    grep -q '^NoNewPrivs:[[:space:]]*1' "$work/status" || fail "$service could gain privileges"
  done
  echo "six containers without a capability"
}

kill_one_under_load() {
  local before load
  mkfifo "$work/tell"
  podman run --interactive --rm --network "${COMPOSE_PROJECT_NAME}_default" --volume "$PWD/tests:/srv/tests:ro" \
    "$many" python -m tests.docker.load http://proxy:8080 <"$work/tell" >"$work/load" 2>&1 &
  load=$!
  exec 3>"$work/tell"
  until grep -q going "$work/load"; do
    kill -0 "$load" 2>/dev/null || { cat "$work/load"; fail "clients cannot work with it"; }
    sleep 0.2
  done
  before="$(process serve-1)"
  kill -KILL "$before"
  echo killed >&3
  wait "$load" || { cat "$work/load"; fail "a replica was killed, and clients noticed"; }
  tail -1 "$work/load"
  for _ in $(seq 120); do
    if [ "$(process serve-1)" -gt 0 ] && podman healthcheck run "$(of serve-1)" >/dev/null 2>&1; then break; fi
    sleep 1
  done
  [ "$(process serve-1)" != "$before" ] || fail "the replica was not killed"
  podman healthcheck run "$(of serve-1)" >/dev/null || fail "the killed replica did not come back by itself"
  echo "the killed replica came back by itself"
}

held() { # what is there, to compare
  request /v1/items/a
  request /v1/items/b
  request /v1/search --json '{"text": "a red box", "target": "text", "limit": 5}' | ids
}

many_machines() {
  export POSTGRES_TAG=$TAG NGINX_TAG=$TAG SEAWEEDFS_TAG=$TAG MILVUS_TAG=$TAG
  step "stand-ins for PostgreSQL, the bucket, Milvus and the proxy"
  stand_in_ground
  stand_in_postgres
  stand_in_bucket
  stand_in_milvus
  stand_in_proxy

  step "the replicas' image"
  echo "own layers: $(own_layers "$many") MB"

  step "two replicas on one database, one bucket and one Milvus, behind the proxy"
  cp -r docker "$work/docker"
  "$work/docker/secrets.sh"
  check_health &
  cluster_up
  check_all_confined

  step "one of them is killed under load"
  kill_one_under_load
  held >"$work/held"

  step "the cluster is taken down, and comes up again"
  cluster down >/dev/null 2>&1
  cluster_up
  held | diff "$work/held" - || fail "it holds something else than before"
  echo "it holds what it held"
}
