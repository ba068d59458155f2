#!/usr/bin/env bash
# Train on the verdicts of the users, each night; a better encoder takes over while the service runs.
#   0 3 * * *  cd /srv/shop && examples/nightly.sh data/things bundles http://127.0.0.1:8000
# Further words are options of `multifold train-on-feedback`. MULTIFOLD_KEY is the key, where there are keys (admin).
set -euo pipefail
data="$1" bundles="$2" service="$3"
current="$(python - "$service" <<'PYTHON'
import os, sys
from multifold.client import Client
with Client(sys.argv[1], api_key=os.environ.get("MULTIFOLD_KEY")) as client:
    used = client.info()["bundle"]["vector_id"]
    print(next(one.folder for one in client.bundles() if one.vector_id == used))
PYTHON
)"
next="$bundles/$(date +%F)"
status=0
multifold train-on-feedback default --data "$data" --bundle "$bundles/$current" --to "$next" --service "$service" "${@:4}" || status=$?
case $status in
  0) echo "$next answers now; before it was $bundles/$current" ;;
  1) echo "$bundles/$current stays: the verdicts do not make a better one yet" ;;
  *) exit $status ;;
esac
