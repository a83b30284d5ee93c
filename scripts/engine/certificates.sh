# shellcheck shell=bash
# Certificates of the remote test engines and of their clients. Sourced by scripts/engine.sh.

CERTS=$RUN/certs

# The arguments with which dockerd listens for TLS, one per line.
tls_arguments() {
	printf '%s\n' -H "tcp://$(engine_tls "$1")" \
		--tlsverify --tlscacert "$CERTS/ca.pem" --tlscert "$CERTS/server.pem" --tlskey "$CERTS/server-key.pem"
}

# certificates GROUP makes ca.pem, those of the engines, and cert.pem and key.pem as in DOCKER_CERT_PATH. Whoever
# may use the sockets can read them.
certificates() {
	[ ! -e "$CERTS" ] || return 0
	local new engine addresses=
	new=$(mktemp -d "$RUN/certs.XXXXXX")
	for engine in debian3 moby3; do
		# Tests reach an engine by the host's address in its network.
		addresses+=${addresses:+,}IP:$(engine_gateway "$engine"),IP:$(engine_address "$engine")
	done
	certificate "$new" ca ca-key -x509 -subj /CN=ca
	certificate "$new" server server-key -subj /CN=server -addext "subjectAltName=$addresses" -addext extendedKeyUsage=serverAuth
	certificate "$new" cert key -subj /CN=client -addext extendedKeyUsage=clientAuth
	chown -R "root:$1" "$new"
	chmod 750 "$new"
	chmod 640 "$new"/*
	mv -T "$new" "$CERTS" 2>/dev/null || rm -rf "$new" # another engine was faster
}

# certificate DIRECTORY NAME KEY ARGUMENT ...
certificate() {
	local dir=$1 name=$2 key=$3
	shift 3
	[ "$name" = ca ] || set -- -x509 -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" "$@"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 "$@" \
		-keyout "$dir/$key.pem" -out "$dir/$name.pem" 2>/dev/null || die "openssl could not make $name.pem"
}
