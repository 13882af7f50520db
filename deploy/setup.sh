#!/bin/sh
# Installs what Go does not bring along, with the system's package manager, and only
# what is missing: tmux for runs; for the tests a C compiler (race detector) and Chromium
# (web page).
#
#   deploy/setup.sh tmux cc chromium
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		say "this needs root and there is no sudo; run as root: $*"
		exit 1
	fi
}

# has_cc builds a program, because a compiler without the C library is no use.
has_cc() {
	command -v "${CC:-cc}" >/dev/null 2>&1 || return 1
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' |
		"${CC:-cc}" -x c -o /dev/null - >/dev/null 2>&1
}

# has_chromium looks for what the tests look for.
has_chromium() {
	for browser in chromium chromium-browser google-chrome; do
		command -v "$browser" >/dev/null 2>&1 && return 0
	done
	[ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] ||
		[ -x /Applications/Chromium.app/Contents/MacOS/Chromium ]
}

has() {
	case $1 in
	cc) has_cc ;;
	chromium) has_chromium ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}

install_debian() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q
	packages=
	for tool in "$@"; do
		case $tool in
		cc) packages="$packages gcc libc6-dev" ;;
		chromium) # Ubuntu calls it otherwise
			if apt-cache show chromium >/dev/null 2>&1; then
				packages="$packages chromium"
			else
				packages="$packages chromium-browser"
			fi
			;;
		*) packages="$packages $tool" ;;
		esac
	done
	# shellcheck disable=SC2086 # a list of words
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages
}

install_named() { # PACKAGES-FOR-CC COMMAND… -- TOOLS…
	compiler=$1
	shift
	command=
	while [ "$1" != -- ]; do
		command="$command $1"
		shift
	done
	shift
	packages=
	for tool in "$@"; do
		case $tool in
		cc) packages="$packages $compiler" ;;
		*) packages="$packages $tool" ;;
		esac
	done
	# shellcheck disable=SC2086 # lists of words
	$command $packages
}

install_darwin() {
	for tool in "$@"; do
		if [ "$tool" = cc ]; then
			say "no C compiler: run 'xcode-select --install' and try again"
			exit 1
		fi
	done
	if ! command -v brew >/dev/null 2>&1; then
		say "missing: $*. Install Homebrew (https://brew.sh) or MacPorts, then: brew install $*"
		exit 1
	fi
	brew install "$@"
}

install_tools() {
	if [ "$(uname -s)" = Darwin ]; then
		install_darwin "$@"
	elif command -v apt-get >/dev/null 2>&1; then
		install_debian "$@"
	elif command -v dnf >/dev/null 2>&1; then
		install_named "gcc glibc-devel" as_root dnf install -y -- "$@"
	elif command -v pacman >/dev/null 2>&1; then
		install_named gcc as_root pacman -Sy --noconfirm --needed -- "$@"
	elif command -v apk >/dev/null 2>&1; then
		install_named "gcc musl-dev" as_root apk add -- "$@"
	elif command -v zypper >/dev/null 2>&1; then
		install_named "gcc glibc-devel" as_root zypper --non-interactive install -- "$@"
	else
		say "missing: $*, and no package manager that is known here; install them and try again"
		exit 1
	fi
}

missing=
for tool in "$@"; do
	has "$tool" || missing="$missing $tool"
done
[ -n "$missing" ] || exit 0

say "installing$missing"
# shellcheck disable=SC2086 # a list of words
install_tools $missing
for tool in $missing; do
	has "$tool" || {
		say "$tool is still missing after the installation"
		exit 1
	}
done
