//! Backups of etcd: stores, the stream of a snapshot into one, its verification, and the way back.
