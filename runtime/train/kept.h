/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The session that answers of a loaded model leave open, for the next call.
 */
#ifndef SL_RUNTIME_TRAIN_KEPT_H
#define SL_RUNTIME_TRAIN_KEPT_H

struct sl_session;

/* Keep an open session, until the next session opens. */
void sl_kept_keep(struct sl_session *session);

/* It, or NULL. */
struct sl_session *sl_kept_session(void);

/* Close it, if there is one: a process has one session. */
void sl_kept_close(void);

#endif
