/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A user's program, compiled by `make installcheck` against the installed headers and library: settings, an option that is
 * taken, one that is refused with a message. */
#include <starling.h>
#include <stdio.h>

static int expect(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "installed: %s; the last message is \"%s\"\n", what, sl_message());
    }
    return good ? 0 : 1;
}

int main(void)
{
    struct sl_settings settings;
    int failed = expect(sl_settings_init(&settings) == SL_OK, "the defaults are not to be had");
    failed += expect(sl_option_set(&sl_settings_table, "epochs", "3", &settings) == SL_OK, "epochs=3 is refused");
    failed += expect(settings.epochs == 3, "epochs=3 changes nothing");
    failed += expect(sl_option_set(&sl_settings_table, "epochs", "few", &settings) == SL_EINVAL, "epochs=few is taken");
    failed += expect(sl_message()[0] != '\0', "a refusal has no message");
    sl_settings_free(&settings);
    return failed == 0 ? 0 : 1;
}
