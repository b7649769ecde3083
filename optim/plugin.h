/*
 * The interface, in C99, between Mailgrad and an update rule in a shared library, which a user loads with
 * `mailgrad train --optimizer ./libmine.so:beta=0.9`. plugin.hpp makes such a rule from a C++ functor.
 *
 * A library exports one function, mailgrad_plugin_rule(), which describes its rule. The rule turns one
 * gradient into one step. Mailgrad keeps the states, sums the gradients of a batch and the repeats of a
 * sparse row, and follows the schedule. It also scales, clips and decays, unless the rule says that it
 * `prepares` gradients.
 *
 * Errors  Mailgrad takes libraries of MAILGRAD_PLUGIN_VERSION and of all versions before it. It refuses one
 *         of a later version and names both, and one whose rule does not fit the comments below. The functions
 *         of a library report no error: they neither throw nor exit.
 * Threads several threads call a library at once, each with memory of its own (shards; replicas of hogwild).
 *         A library stays loaded until the process ends.
 */
#ifndef MAILGRAD_OPTIM_PLUGIN_H
#define MAILGRAD_OPTIM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Raised by each change of this file. A new field stands at the end of its struct, so that libraries of older
 * versions still work: version 2 brought `preparation` and `prepares`, version 3 `variable` and
 * `whole_variables`.
 */
#define MAILGRAD_PLUGIN_VERSION 3u

/* The most floats that a rule may keep for a weight. */
#define MAILGRAD_PLUGIN_MOST_STATES 8u

/* The most settings that a rule may have. */
#define MAILGRAD_PLUGIN_MOST_SETTINGS 64u

#if defined(__GNUC__)
#define MAILGRAD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define MAILGRAD_PLUGIN_EXPORT
#endif

/*
 * The values that the rule's formula uses for element i of the range: the gradient is scale * gradient[i] +
 * l2 * weights[i], and the weight is weights[i] - decay * weights[i].
 */
typedef struct mailgrad_preparation {
  float scale;
  float l2;
  float decay;
} mailgrad_preparation;

/* A variable of the model, whose values are row-major. */
typedef struct mailgrad_variable {
  const char* name;      /* such as "a/weights", the same in every run of the model */
  size_t rank;           /* 0 for a scalar */
  const size_t* extents; /* by axis; [in, units] for the weights of a product, */
                         /* [height, width, in, filters] for those of a convolution */
  size_t offset;         /* where it begins in its shard, in floats */
} mailgrad_variable;

/*
 * One step of the rule on a range of weights: a part of a shard, a row of a table that a sparse gradient
 * touches, or a whole variable for a rule that asks for `whole_variables`. Any other rule must not depend on
 * how a shard is cut into ranges, which differs from call to call.
 *
 * Shapes  weights, updated, gradient and each of states: float32[count]; any count, any alignment of a float.
 */
typedef struct mailgrad_rule_step {
  const float* weights; /* version t */
  float* updated;       /* version t + 1: the memory of `weights` itself, or memory apart from it */
  const float*
      gradient; /* summed over the batch; scale, clipping and l2 are in it only if `preparation` is null */
  float* const* states; /* by state; 0 before the first step, then as the last step left it */
  size_t count;
  uint64_t step;          /* updates of these states, this one included; the schedule may count further */
  double learning_rate;   /* of this step, with schedule and cure of staleness applied */
  const double* settings; /* by setting, in the order of the rule */
  const mailgrad_preparation*
      preparation; /* what `update` must do itself; null if there is nothing to do, and always
                                              null for a rule that does not say that it prepares */
  const mailgrad_variable*
      variable; /* what is updated, for a rule that asks for whole variables; else null */
} mailgrad_rule_step;

/* A number that a user may set by its name: --optimizer ./libmine.so:NAME=VALUE */
typedef struct mailgrad_rule_setting {
  const char* name; /* of letters, digits, '_' and '-'; no two of a rule are the same */
  double value;     /* the default */
  double least;     /* at least this, */
  double below;     /* and less than this; HUGE_VAL for any */
} mailgrad_rule_setting;

/*
 * An update rule. Neither the table nor what it points to ever changes.
 *
 * `update` is a pure function: updated[i] and states[..][i] follow from weights[i], gradient[i],
 * states[..][i], the step, the rate, the settings and the preparation alone. They never follow from a
 * neighbour (unless the rule asks for whole variables), a clock, a random source or an earlier call. Without
 * this a repeated run would not give the same bits. Before training, Mailgrad tries the rule on 64 weights,
 * and refuses it if it breaks this there.
 */
typedef struct mailgrad_rule {
  uint32_t interface_version; /* MAILGRAD_PLUGIN_VERSION; comes first in every version */
  uint32_t states;            /* floats kept for each weight, at most MAILGRAD_PLUGIN_MOST_STATES */
  const char* name;           /* its name in the report */
  double learning_rate;       /* the default */
  size_t setting_count;       /* at most MAILGRAD_PLUGIN_MOST_SETTINGS */
  const mailgrad_rule_setting* settings; /* may be null if there are none */
  void (*update)(const mailgrad_rule_step* step);
  uint32_t
      prepares; /* 1: `update` does what its step's `preparation` asks for, which spares a pass over memory;
                        0: Mailgrad does it before */
  uint32_t whole_variables; /* 1: each call of `update` is for one whole variable, in place, once for each
                               update of the weights. Each shard then has whole variables, and sparse tables,
                               hogwild and GPUs are refused. `prepares` must be 0. 0: for any range */
} mailgrad_rule;

/* What a library exports; called once for each time it is named. */
MAILGRAD_PLUGIN_EXPORT const mailgrad_rule* mailgrad_plugin_rule(void);

#ifdef __cplusplus
}
#endif

#endif
