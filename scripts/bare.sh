#!/usr/bin/env bash
# bare.sh [TARGET...]: runs make targets (default: run test) in a fresh Debian 12 system that has make and git only.
#
# debootstrap makes the system in build/bare. The script clones HEAD there, at the path of this tree. A target passes
# only if the Makefile installs all that it needs. Prints the exit status and the seconds of each target. The exit status
# is 1 if one failed. Output goes to build/bare/TARGET.log.
#
# Needs root and debootstrap. Mounts live in a namespace of their own and end with the script. Settings of apt's and
# pip's proxies and certificates are taken over. WEFT_BARE_CCACHE=DIR shares a compiler cache with the system; builds
# are then faster than first builds.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bare="$root/build/bare"
tree="$bare/system"

if ((EUID != 0)); then
  echo "bare: needs root to make a system and to mount in it; run it with sudo" >&2
  exit 2
fi
if ! command -v debootstrap >/dev/null; then
  "$root/scripts/setup.sh" bare
fi
if [[ -z "${WEFT_BARE_INSIDE:-}" ]]; then
  exec env WEFT_BARE_INSIDE=1 unshare --mount --pid --fork --kill-child "${BASH_SOURCE[0]}" "$@"
fi
(($# > 0)) || set -- run test

mkdir -p "$bare"
rm -rf --one-file-system "$tree"
echo "bare: debootstrap of Debian 12 with make and git" >&2
debootstrap --variant=minbase --include=make,git bookworm "$tree" >"$bare/debootstrap.log"
git clone -q --no-hardlinks "$root" "$tree$root"

mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb)
for name in http_proxy https_proxy no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT; do
  [[ -z "${!name:-}" ]] || environment+=("$name=${!name}")
done
if [[ -n "${PIP_CERT:-}" ]]; then
  cp -L "$PIP_CERT" "$tree/root/certificates.pem"
  environment+=(PIP_CERT=/root/certificates.pem)
fi
if [[ -n "${WEFT_BARE_CCACHE:-}" ]]; then
  mkdir -p "$tree/root/ccache"
  mount --bind "$WEFT_BARE_CCACHE" "$tree/root/ccache"
  environment+=(CCACHE_DIR=/root/ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS="time_macros,pch_defines"
    ${LANG:+LANG="$LANG"})
fi

failed=0
for target in "$@"; do
  begin=$SECONDS status=0
  chroot "$tree" env -i "${environment[@]}" make -C "$root" "$target" >"$bare/$target.log" 2>&1 </dev/null || status=$?
  echo "bare: make $target: exit status $status after $((SECONDS - begin)) s; its last lines:"
  tail -n 5 "$bare/$target.log"
  ((status == 0)) || failed=1
done
exit "$failed"
