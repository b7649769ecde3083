#pragma once

#include <mailgrad/actors/protocol/wire.hpp>

#include <cstdint>
#include <string>

// What the hosts of two processes say to each other: one actor in each process that begins and ends what it
// has of the run. All other messages go from actor to actor, as within one process.
//
//     server --terms_told--> worker's process: it spawns its device actor, which joins
//     server --terms_told--> parameter host: it spawns its shards, and listens for workers
//     parameter host --shards_ready--> server
//     worker's process --worker_leaves--> server: all that it will ever say has been said
//     watcher --run_asked--> server --run_answered--> watcher

namespace mailgrad {

/// Server to a worker's process, once: what its worker is to do (worker_terms.hpp). No answer. To a parameter
/// host: which shards it holds (shard_terms.hpp). It answers with `shards_ready`.
struct terms_told {
  std::string terms;
};

/// Parameter host to server, in answer to `terms_told`: its shards are there.
struct shards_ready {
  std::string address; ///< where workers reach them
};

/// A worker's process to server, as its last message: the worker has ended. The server ends the session.
struct worker_leaves {
  bool early = false; ///< before the run had ended, since its owner asked for it
};

/// The network to a worker's host, when the connection to a parameter host has broken, and that host to
/// itself after a while, if the session with the server goes on: then the run goes on without this
/// incarnation. A server that has lost the parameter host as well ends the run meanwhile. No answer.
struct shards_unreachable {
  std::string why;
  bool waited = false;
};

/// Watcher to server: what it wants to know or to change. The server answers with `run_answered`.
struct run_asked {
  std::uint64_t number = 0; ///< of the question, chosen by the watcher
  std::string what;         ///< "status", "switch", "stop"
  std::string argument;     ///< of "switch" a policy, of "stop" the reason
};

/// Server to watcher, in answer to `run_asked`.
struct run_answered {
  std::uint64_t number = 0;
  bool refused = false;
  std::string text; ///< of a status a JSON object; of a refusal one line
};

template <class Inspector>
auto inspect(Inspector& f, terms_told& x) {
  return wire::fields(f, x, wire::field("terms", x.terms));
}
template <class Inspector>
auto inspect(Inspector& f, shards_ready& x) {
  return wire::fields(f, x, wire::field("address", x.address));
}
template <class Inspector>
auto inspect(Inspector& f, worker_leaves& x) {
  return wire::fields(f, x, wire::field("early", x.early));
}
template <class Inspector>
auto inspect(Inspector& f, shards_unreachable& x) {
  return wire::fields(f, x, wire::field("why", x.why), wire::field("waited", x.waited));
}
template <class Inspector>
auto inspect(Inspector& f, run_asked& x) {
  return wire::fields(f, x, wire::field("number", x.number), wire::field("what", x.what),
                      wire::field("argument", x.argument));
}
template <class Inspector>
auto inspect(Inspector& f, run_answered& x) {
  return wire::fields(f, x, wire::field("number", x.number), wire::field("refused", x.refused),
                      wire::field("text", x.text));
}

} // namespace mailgrad
