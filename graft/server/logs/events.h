// Log messages about models and steps.

#pragma once

#include <string>

#include "graft/api/llm.h"
#include "graft/server/logs/logs.h"
#include "graft/server/models/model_pool.h"

namespace graft::server {

// Info; errors for a model that cannot be loaded or has failed.
void log_pool_event(Logs& logs, const PoolEvent& event);

// Debug: one message for the step, and one when it preempted sequences.
void log_step(Logs& logs, const std::string& model, const api::StepInfo& step);

}  // namespace graft::server
