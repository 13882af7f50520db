#!/usr/bin/env bash
# Drives real versions of Claude Code, from npm, through the adapter and the whole
# service. Needs Node 20 or newer with npm; the versions are kept in a cache.
#
#   CLAUDE_VERSIONS             the versions, separated by spaces
#   CLAUDE_EXCLUDE              versions that may be left out, separated by spaces
#   THREADMILL_CONFORMANCE_DIR  the cache
set -euo pipefail
cd "$(dirname "$0")/../.."

versions=${CLAUDE_VERSIONS:-2.1.329 2.1.197}
cache=${THREADMILL_CONFORMANCE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/threadmill-conformance}

# fetch puts a version into its directory in the cache, whole or not at all.
fetch() {
	local version=$1 dir=$cache/claude-code-$1 new
	[ -x "$dir/node_modules/.bin/claude" ] && return
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/.new-XXXXXX")
	echo "fetching @anthropic-ai/claude-code@$version" >&2
	echo '{"private":true}' >"$new/package.json"
	if ! npm install --prefix "$new" --no-audit --no-fund --loglevel=error "@anthropic-ai/claude-code@$version" >&2 ||
		! "$new/node_modules/.bin/claude" --version >&2; then
		rm -rf "$new"
		return 1
	fi
	rm -rf "$dir"
	mv "$new" "$dir"
}

binaries=
for version in $versions; do
	case " ${CLAUDE_EXCLUDE:-} " in
	*" $version "*)
		echo "LEFT OUT, as CLAUDE_EXCLUDE says: Claude Code $version" >&2
		continue
		;;
	esac
	if ! fetch "$version"; then
		echo "Claude Code $version COULD NOT BE HAD from npm, so nothing is known of it." >&2
		echo "CLAUDE_EXCLUDE=$version leaves it out." >&2
		exit 1
	fi
	binaries=${binaries:+$binaries:}$cache/claude-code-$version/node_modules/.bin/claude
done
if [ -z "$binaries" ]; then
	echo "no version of Claude Code is left to drive" >&2
	exit 1
fi

export CLAUDE_CONFORMANCE_BINARIES=$binaries
${GO:-go} test -tags conformance -count=1 -timeout 20m -run '^TestRealCLI$' ./adapters/claude/
${GO:-go} test -tags conformance -count=1 -timeout 20m -parallel 4 -run '^TestClaudeCLI$' -v ./cmd/threadmill/ | grep -vE '^ *(=== |--- PASS)'
