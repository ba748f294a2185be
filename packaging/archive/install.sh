#!/bin/sh
# Installs graft for one user, without root. Run it in the unpacked archive, or beside the archive file.
set -eu

usage() {
  cat <<'TEXT'
usage: ./install.sh [--prefix FOLDER] [ARCHIVE]    install into FOLDER (default: PREFIX, else ~/.local)
       ./install.sh [--prefix FOLDER] --uninstall  remove the installation; models and settings stay

Files: FOLDER/lib/graft, FOLDER/bin/graft (a link), shell completion and manual pages in FOLDER/share.
TEXT
}
die() { printf 'install.sh: %s\n' "$*" >&2; exit 2; }

prefix=${PREFIX:-${HOME:+$HOME/.local}}
archive=
action=install
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -gt 1 ] || die "--prefix needs a folder"; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) archive=$1 ;;
  esac
  shift
done
[ -n "$prefix" ] || die "HOME is not set; choose a folder with --prefix"
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
case $prefix in *[:\;]*) die "$prefix: the path must not contain ':' or ';'" ;; esac

home=$prefix/lib/graft
links="bin/graft share/bash-completion/completions/graft share/zsh/site-functions/_graft share/fish/vendor_completions.d/graft.fish"

# Only links of this installation are removed or replaced, and only a folder that this script made.
is_ours() { case $(readlink "$prefix/$1" 2>/dev/null) in "$home"/*) return 0 ;; *) return 1 ;; esac; }

# The manual pages of the installation in $home.
pages() { for page in "$home"/share/man/man1/*.1; do [ ! -f "$page" ] || printf 'share/man/man1/%s\n' "${page##*/}"; done; }

remove() {
  for link in $links $(pages); do
    ! is_ours "$link" || rm -f "$prefix/$link"
  done
  [ ! -d "$home" ] || [ -x "$home/libexec/program" ] || die "$home: not an installation of graft"
  rm -rf "$home"
}

if [ "$action" = uninstall ]; then
  [ -d "$home" ] || die "$home: graft is not installed there"
  remove
  printf 'Removed graft from %s. Models (~/.local/share/graft), settings (~/.config/graft) and caches (~/.cache/graft) stay.\n' "$prefix"
  exit 0
fi

for link in $links; do
  if [ -e "$prefix/$link" ] && ! is_ours "$link"; then die "$prefix/$link: exists and does not belong to this installation"; fi
done

here=$(cd "$(dirname "$0")" && pwd)
new=$home.new.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "$prefix/lib"
mkdir "$new"
if [ -z "$archive" ] && [ -x "$here/libexec/program" ]; then
  cp -R -P -p "$here/." "$new"
else
  if [ -z "$archive" ]; then
    for file in "$here"/graft-*-linux-*.tar.*; do
      [ -f "$file" ] || die "no archive graft-*-linux-*.tar.zst beside this script; name one"
      [ -z "$archive" ] || die "several archives beside this script; name one"
      archive=$file
    done
  fi
  [ -f "$archive" ] || die "$archive: no such file"
  case $archive in
    *.zst)
      command -v zstd >/dev/null || die "$archive: zstd is not installed; install it, or use the .tar.gz archive"
      zstd -q -d -c "$archive" | tar -C "$new" --strip-components=1 -xf - ;;
    *) tar -C "$new" --strip-components=1 -xf "$archive" ;;
  esac
fi
"$new/bin/graft" --version >/dev/null || die "$new/bin/graft does not run on this system"
remove
mv "$new" "$home"
for link in $links $(pages); do
  [ ! -e "$prefix/$link" ] || continue  # a page of another installation
  mkdir -p "$(dirname "$prefix/$link")"
  ln -s "$home/$link" "$prefix/$link"
done
printf 'Installed %s in %s.\n' "$("$prefix/bin/graft" --version)" "$prefix"
case :${PATH:-}: in
  *":$prefix/bin:"*) printf 'Start with: graft chat\n' ;;
  *) printf 'Add it to your PATH, in ~/.profile or ~/.bashrc:\n  export PATH="%s/bin:$PATH"\nor start it with: %s/bin/graft chat\n' "$prefix" "$prefix" ;;
esac
