/* The other translation unit. */
#include "redlatch.h"

int other_unit(void);

int other_unit(void) {
    redlatch_lock_options options;
    return redlatch_lock_options_init(&options, sizeof options) != REDLATCH_OK || options.size != sizeof options;
}
