"""Without keys there is neither encryption nor authentication: whoever reaches the ports can join. A learner without
keys listens beyond loopback only with `--insecure`, and a peer without a credential connects beyond loopback only with
`--insecure`.

With keys, both ports speak CurveZMQ (RFC 26): a peer must know the learner's public key, and the learner must have the
peer's public key in its list, which is checked by ZAP (RFC 27) before the peer's first message is read. Every message
arrives with the name of the key under which it was encrypted. A hello that claims another name is refused with the code
`name`; a message under another key than the hello's is answered like a stranger's. The learner names each connection
itself, and a hello's incarnation has 128 random bits and is encrypted, so nobody else can take a peer's place. When a
key is revoked, the learner ends its connections. Subscribers do not say who they are, so all subscribers from the same
addresses are disconnected too; those that are still allowed reconnect in a moment.
"""
