#include <cstddef>
#include <cstdint>

// A plug-in of version 1 or 2 of the interface, with the structs as plugin.h had them then. They never
// change: this library stands for those that users have compiled long ago.

extern "C" {

typedef struct mailgrad_preparation {
  float scale;
  float l2;
  float decay;
} mailgrad_preparation;

typedef struct mailgrad_rule_step {
  const float* weights;
  float* updated;
  const float* gradient;
  float* const* states;
  size_t count;
  uint64_t step;
  double learning_rate;
  const double* settings;
#if MAILGRAD_OLD_VERSION >= 2
  const mailgrad_preparation* preparation;
#endif
} mailgrad_rule_step;

typedef struct mailgrad_rule_setting {
  const char* name;
  double value;
  double least;
  double below;
} mailgrad_rule_setting;

typedef struct mailgrad_rule {
  uint32_t interface_version;
  uint32_t states;
  const char* name;
  double learning_rate;
  size_t setting_count;
  const mailgrad_rule_setting* settings;
  void (*update)(const mailgrad_rule_step* step);
#if MAILGRAD_OLD_VERSION >= 2
  uint32_t prepares;
#endif
} mailgrad_rule;

static void momentum(const mailgrad_rule_step* s) {
  const float rate = static_cast<float>(s->learning_rate);
  const float factor = static_cast<float>(s->settings[0]);
  for (size_t i = 0; i < s->count; ++i) {
    float g = s->gradient[i];
    float w = s->weights[i];
#if MAILGRAD_OLD_VERSION >= 2
    if (s->preparation) {
      g = s->preparation->scale * g + s->preparation->l2 * w;
      w -= s->preparation->decay * w;
    }
#endif
    s->states[0][i] = factor * s->states[0][i] + g;
    s->updated[i] = w - rate * s->states[0][i];
  }
}

/// What lies behind the table of an old library is none of its fields.
struct table_and_what_follows {
  mailgrad_rule table;
  uint32_t not_of_the_table[8];
};

static const mailgrad_rule_setting settings[] = {{"momentum", 0.9, 0, 1}};
static const table_and_what_follows rule = {{MAILGRAD_OLD_VERSION, 1, "old-momentum", 0.01, 1, settings,
                                             momentum
#if MAILGRAD_OLD_VERSION >= 2
                                             ,
                                             1
#endif
                                            },
                                            {1, 1, 1, 1, 1, 1, 1, 1}};

__attribute__((visibility("default"))) const mailgrad_rule* mailgrad_plugin_rule(void) { return &rule.table; }
}
