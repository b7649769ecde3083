#pragma once

#include <string>
#include <utility>

namespace mailgrad {

/// What a plan knows of a user's own parameter actor. own_parameter_actor.hpp adds how it is spawned.
struct parameter_actor_kind {
  std::string name;             ///< the report shows it
  bool switches = false;        ///< answers `switch_policy`; if not, the run refuses every switch
  bool whole_variables = false; ///< each of its shards has whole variables

  parameter_actor_kind(std::string its_name, bool it_switches, bool asks_for_whole_variables = false)
      : name(std::move(its_name)), switches(it_switches), whole_variables(asks_for_whole_variables) {}
  virtual ~parameter_actor_kind() = default;
  parameter_actor_kind(const parameter_actor_kind&) = delete;
  parameter_actor_kind& operator=(const parameter_actor_kind&) = delete;
};

} // namespace mailgrad
