/* The header, included first and twice, in one of two translation units. */
#include "redlatch.h"
#include "redlatch.h"

int other_unit(void);

int main(void) {
    redlatch_client *client = 0;
    int32_t status = redlatch_client_open("memory://", REDLATCH_NUL_TERMINATED, 0, &client);
    redlatch_client_free(client);
    return status != REDLATCH_OK || other_unit() != 0;
}
