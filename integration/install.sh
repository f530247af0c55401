#!/usr/bin/env bash
# Sees to everything that the integration tests need from the system. What Debian's packages
# have is installed; for what is missing after that it says one line each and exits with 1.
set -euo pipefail

packages=()
missing=()

have() { command -v "$1" >/dev/null 2>&1; }

# at_least WANTED FOUND: whether a version is at least another.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

rabbitmq() {
	local f
	for f in /usr/lib/rabbitmq/bin/rabbitmq-server /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server; do
		[ -x "$f" ] && return 0
	done
	return 1
}
postgresql() {
	local f
	for f in /usr/lib/postgresql/*/bin/postgres; do [ -x "$f" ] && return 0; done
	return 1
}
java_version() { java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'; }
java17() { have java && at_least 17 "$(java_version)"; }
python311() { have python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' && python3 -c 'import ensurepip, venv' 2>/dev/null; }
cargo188() { have cargo && at_least 1.88 "$(cargo --version | cut -d ' ' -f 2)"; }

# need PROGRAM-OR-FUNCTION PACKAGE...: the packages that bring it, where it is not there.
need() {
	local test=$1
	shift
	if [ "$(type -t "$test")" = function ]; then "$test" && return 0; else have "$test" && return 0; fi
	packages+=("$@")
}

need rabbitmq rabbitmq-server
need epmd erlang-base
need postgresql postgresql
need mariadbd mariadb-server
need redis-server redis-server
need nats-server nats-server
need faketime faketime # for servers whose clocks are wrong
need java17 default-jre-headless
need mvn maven
need python311 python3 python3-venv
need npm nodejs npm
need cc gcc libc6-dev
need cmake cmake # a crate of the Rust peers builds C
need debootstrap debootstrap
need unzip unzip

if ! cargo188; then
	missing+=("cargo 1.88 or newer, for the peer written in Rust (found: $(cargo --version 2>/dev/null || echo none)); install it with rustup")
fi
if [ "$(id -u)" != 0 ]; then
	missing+=("root, to run RabbitMQ 4 inside the Debian release that has it")
fi
if [ ${#packages[@]} -gt 0 ] && ! have apt-get; then
	missing+=("a system with apt-get, or these packages' programs: ${packages[*]}")
elif [ ${#packages[@]} -gt 0 ] && [ "$(id -u)" != 0 ]; then
	missing+=("root, to install with apt-get: ${packages[*]}")
fi

finish() {
	local line
	for line in "${missing[@]}"; do echo "missing: $line"; done
	exit 1
}
[ ${#missing[@]} -eq 0 ] || finish
[ ${#packages[@]} -gt 0 ] || exit 0

echo "installing ${packages[*]}"
# The packages bring services; the tests start their own servers, in folders of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
apt() {
	if ! apt-get -y "$@" >"$log" 2>&1; then
		cat "$log"
		missing+=("what apt-get $1 could not bring: ${packages[*]}")
		rm -f "$log"
		finish
	fi
}
apt update
apt install --no-install-recommends "${packages[@]}"
rm -f "$log"

rabbitmq || missing+=("RabbitMQ, although rabbitmq-server is installed")
postgresql || missing+=("PostgreSQL, although postgresql is installed")
have mariadbd || missing+=("MariaDB, although mariadb-server is installed")
have redis-server || missing+=("Redis, although redis-server is installed")
have nats-server || missing+=("NATS, although nats-server is installed")
have epmd || missing+=("epmd, although erlang-base is installed")
java17 || missing+=("Java 17 or newer, although default-jre-headless is installed")
have mvn || missing+=("mvn, although maven is installed")
python311 || missing+=("Python 3.11 or newer with venv, although python3-venv is installed")
have npm || missing+=("npm, although it is installed")
have cmake || missing+=("cmake, although it is installed")
have debootstrap || missing+=("debootstrap, although it is installed")
have unzip || missing+=("unzip, although it is installed")
have cc || missing+=("a C compiler, although gcc is installed")
[ ${#missing[@]} -eq 0 ] || finish
