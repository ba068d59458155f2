#!/bin/sh
# The keys of the profile `cluster`, made once; what is there stays.
set -eu
umask 022 # containers read the files as users of their own; the folder keeps others out
folder="${1:-"$(dirname "$0")/secrets"}"
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"
[ -e postgres ] || openssl rand -hex 24 >postgres
if [ ! -e bucket ]; then
  secret="$(openssl rand -hex 24)"
  cat >bucket-server <<END
{"identities": [{"name": "multifold", "actions": ["Admin"],
  "credentials": [{"accessKey": "multifold", "secretKey": "$secret"}]}]}
END
  printf '[default]\naws_access_key_id = multifold\naws_secret_access_key = %s\n' "$secret" >bucket
fi
