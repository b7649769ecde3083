/*
 * The interface between Mailgrad and an update rule in a shared library, in C99: what
 * `mailgrad train --optimizer ./libmine.so:beta=0.9` loads. plugin.hpp writes one from a C++ functor.
 *
 * A library exports one function, mailgrad_plugin_rule(), which describes its rule. Mailgrad keeps the states,
 * sums the gradients of a batch and the repeats of a sparse row, follows the schedule, clips and decays, unless
 * the rule says that it `prepares` gradients; the rule turns one gradient into one step.
 *
 * Errors  Mailgrad refuses a library of another MAILGRAD_PLUGIN_VERSION and names both, and one whose rule does
 *         not fit the comments below. The functions of a library report no error: they neither throw nor exit.
 * Threads any, and several at once, each with memory of its own (shards; replicas of hogwild). Once loaded, a
 *         library stays until the process ends.
 */
#ifndef MAILGRAD_OPTIM_PLUGIN_H
#define MAILGRAD_OPTIM_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts the changes of this file that an old library would not survive. */
#define MAILGRAD_PLUGIN_VERSION 2u

/* Floats that a rule may keep for a weight. */
#define MAILGRAD_PLUGIN_MOST_STATES 8u

/* Settings that a rule may have. */
#define MAILGRAD_PLUGIN_MOST_SETTINGS 64u

#if defined(__GNUC__)
#define MAILGRAD_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define MAILGRAD_PLUGIN_EXPORT
#endif

/*
 * What becomes of a gradient and of the weights before the rule sees them, with i of the range: the gradient is
 * scale * gradient[i] + l2 * weights[i], and the weight is weights[i] - decay * weights[i].
 */
typedef struct mailgrad_preparation {
  float scale;
  float l2;
  float decay;
} mailgrad_preparation;

/*
 * One step of the rule on a range of weights: a part of a shard, or a row of a table that a sparse gradient
 * touches. How a shard is cut into ranges is not the rule's affair and differs from call to call.
 *
 * Shapes  weights, updated, gradient and each of states: float32[count]; any count, any alignment of a float.
 */
typedef struct mailgrad_rule_step {
  const float* weights;  /* version t */
  float* updated;        /* version t + 1: the memory of `weights` itself, or memory apart from it */
  const float* gradient; /* summed over the batch; scale, clipping and l2 are in it only if `preparation` is null */
  float* const* states;  /* by state; 0 before the first step, then as the last step left it */
  size_t count;
  uint64_t step;          /* updates of these states, this one included; the schedule may count further */
  double learning_rate;   /* of this step, schedule and cure of staleness in it */
  const double* settings; /* by setting, in the order of the rule */
  const mailgrad_preparation* preparation; /* what `update` has yet to do itself; null if nothing, and always for a
                                              rule that does not say that it prepares */
} mailgrad_rule_step;

/* A number that a user may set by its name: --optimizer ./libmine.so:NAME=VALUE */
typedef struct mailgrad_rule_setting {
  const char* name; /* of letters, digits, '_' and '-'; no two of a rule are the same */
  double value;     /* unless set */
  double least;     /* at least this, */
  double below;     /* and less than this; HUGE_VAL for any */
} mailgrad_rule_setting;

/*
 * An update rule. It is constant, and so is what it points to.
 *
 * `update` is a pure function: updated[i] and states[..][i] follow from weights[i], gradient[i], states[..][i],
 * the step, the rate, the settings and the preparation alone, never from a neighbour, a clock, a random source or what it
 * remembers. Only so does a run give the same bits again, however its shards are cut. Mailgrad tries it on 64
 * weights before it trains with it, and refuses a rule that does otherwise there.
 */
typedef struct mailgrad_rule {
  uint32_t interface_version; /* MAILGRAD_PLUGIN_VERSION; comes first in every version */
  uint32_t states;            /* floats kept for each weight, at most MAILGRAD_PLUGIN_MOST_STATES */
  const char* name;           /* as the report has it */
  double learning_rate;       /* unless the user says otherwise */
  size_t setting_count; /* at most MAILGRAD_PLUGIN_MOST_SETTINGS */
  const mailgrad_rule_setting* settings; /* may be null if there are none */
  void (*update)(const mailgrad_rule_step* step);
  uint32_t prepares; /* 1: `update` does what its step's `preparation` asks for, which spares a pass over memory;
                        0: Mailgrad does it before */
} mailgrad_rule;

/* What a library exports; called once for each time it is named. */
MAILGRAD_PLUGIN_EXPORT const mailgrad_rule* mailgrad_plugin_rule(void);

#ifdef __cplusplus
}
#endif

#endif
