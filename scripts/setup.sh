#!/usr/bin/env bash
# setup.sh [GROUP...]: installs the Debian packages of scripts/packages.txt that are missing (default group: build).
# Does nothing, and needs no input, if all of them are installed. Exit status 77: they cannot be fetched, as without a
# network. Other failures, such as a package that Debian does not have, exit with 1.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
groups=("${@:-build}")

wanted=()
while read -r group packages; do
  for g in "${groups[@]}"; do
    if [[ "$group" == "$g" ]]; then
      read -ra words <<<"$packages"
      wanted+=("${words[@]}")
    fi
  done
done < <(grep -v '^#' "$here/packages.txt")
if ((${#wanted[@]} == 0)); then
  echo "setup: no such group: ${groups[*]} (see scripts/packages.txt)" >&2
  exit 2
fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian system; make sure that you have: ${wanted[*]}" >&2
  exit 0
fi

# One call for all: dpkg-query lists the packages that it knows and complains about the others.
installed="$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^ii *//p' || true)"
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]} == 0)) && exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing packages; install them as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}" >&2
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@"; }
not_fetched() {
  echo "setup: skipped: these packages cannot be fetched: ${missing[*]}" >&2
  exit 77
}
fetched=true
apt update -o APT::Update::Error-Mode=any >&2 || fetched=false
install=(install -y --no-install-recommends)
if ! apt "${install[@]}" --simulate "${missing[@]}" >/dev/null; then
  $fetched || not_fetched  # The names may be in lists that could not be fetched.
  echo "setup: these packages cannot be installed on this system: ${missing[*]}" >&2
  exit 1
fi
apt "${install[@]}" --download-only "${missing[@]}" >&2 || not_fetched
apt "${install[@]}" "${missing[@]}" >&2 || exit 1
