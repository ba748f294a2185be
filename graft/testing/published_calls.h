// Tool calls as the model cards and chat templates of the families print them.

#pragma once

#include <string>
#include <vector>

#include "graft/formats/chat_traits.h"

namespace graft::server::testing {

struct PublishedCalls {
  const char* model;
  formats::ToolCallFormat format;
  std::string text;
  std::string content;
  std::vector<std::string> calls;  // "name arguments"
  std::string reasoning = {};
};

// One spelling for all rows. NOLINTBEGIN(modernize-raw-string-literal)
// clang-format off
inline const PublishedCalls kPublishedCalls[] = {
    {"Qwen2.5", formats::ToolCallFormat::Hermes,
     "<tool_call>\n{\"name\": \"get_current_temperature\", \"arguments\": {\"location\": \"San Francisco, CA, USA\"}}\n</tool_call>\n"
     "<tool_call>\n{\"name\": \"get_temperature_date\", \"arguments\": {\"location\": \"San Francisco, CA, USA\", \"date\": \"2024-10-01\"}}\n</tool_call>",
     "", {R"(get_current_temperature {"location": "San Francisco, CA, USA"})",
          R"(get_temperature_date {"location": "San Francisco, CA, USA", "date": "2024-10-01"})"}},
    {"Qwen3", formats::ToolCallFormat::Hermes,
     "<think>\nA tool helps.\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "One moment.", {"f {}"}, "A tool helps."},
    {"Hermes-2-Pro", formats::ToolCallFormat::Hermes,
     "<tool_call>\n{\"arguments\": {\"symbol\": \"TSLA\"}, \"name\": \"get_stock_fundamentals\"}\n</tool_call>",
     "", {R"(get_stock_fundamentals {"symbol":"TSLA"})"}},
    {"Qwen3-Coder", formats::ToolCallFormat::Hermes,
     "I'll look.\n\n<tool_call>\n<function=square_the_number>\n<parameter=input_num>\n1024\n</parameter>\n</function>\n</tool_call>",
     "I'll look.", {R"(square_the_number {"input_num":1024})"}},
    {"DeepSeek-V3", formats::ToolCallFormat::DeepSeek,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{\"location\": \"Paris\"}\n```<｜tool▁call▁end｜>\n"
     "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_weather\n```json\n{\"location\": \"Rome\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", {R"(get_current_weather {"location": "Paris"})", R"(get_current_weather {"location": "Rome"})"}},
    {"DeepSeek-V3.1", formats::ToolCallFormat::DeepSeek,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Hangzhou\"}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "", {R"(get_weather {"city": "Hangzhou"})", "now {}"}},
    {"DeepSeek-V3.2", formats::ToolCallFormat::Dsml,
     "Both.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_datetime\">\n<｜DSML｜parameter name=\"timezone\" string=\"true\">Asia/Shanghai</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "Both.", {R"(get_datetime {"timezone":"Asia/Shanghai","days":2})"}},
    {"DeepSeek-V4", formats::ToolCallFormat::Dsml,
     "<think>Two tools.</think>Both.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_datetime\">\n<｜DSML｜parameter name=\"timezone\" string=\"true\">Asia/Shanghai</｜DSML｜parameter>\n"
     "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"list\">\n<｜DSML｜parameter name=\"days\" string=\"false\">[1, 2]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     "Both.", {R"(get_datetime {"timezone":"Asia/Shanghai"})", R"(list {"days":[1,2]})"}, "Two tools."},
    {"Llama-3.1", formats::ToolCallFormat::Llama,
     R"({"name": "get_current_conditions", "parameters": {"location": "San Francisco, CA", "unit": "Fahrenheit"}})",
     "", {R"(get_current_conditions {"location": "San Francisco, CA", "unit": "Fahrenheit"})"}},
    {"Llama-3.1, built-in tool", formats::ToolCallFormat::Llama,
     R"(<|python_tag|>brave_search.call(query="Menlo Park California weather"))",
     "", {R"(brave_search {"query":"Menlo Park California weather"})"}},
    {"Llama-3.2", formats::ToolCallFormat::Llama,
     "[get_user_info(user_id=7890, special='black'), get_weather(city='Seattle')]",
     "", {R"(get_user_info {"user_id":7890,"special":"black"})", R"(get_weather {"city":"Seattle"})"}},
    {"Llama-4", formats::ToolCallFormat::Llama,
     "<|python_start|>[get_weather(city=\"San Francisco\", metric=\"celsius\")]<|python_end|>",
     "", {R"(get_weather {"city":"San Francisco","metric":"celsius"})"}},
    {"Mistral-7B-Instruct-v0.3", formats::ToolCallFormat::Mistral,
     R"([TOOL_CALLS] [{"name": "get_current_weather", "arguments": {"location": "Paris", "format": "celsius"}}, {"name": "f", "arguments": {}, "id": "9Ae3bDc2F"}])",
     "", {R"(get_current_weather {"location": "Paris", "format": "celsius"})", "f {}"}},
    {"Mistral-Small-3.2", formats::ToolCallFormat::Mistral,
     "Sure.[TOOL_CALLS]get_current_population[ARGS]{\"country\": \"France\"}[TOOL_CALLS]rewrite[ARGS]{\"text\": \"[ARGS]\"}",
     "Sure.", {R"(get_current_population {"country": "France"})", R"(rewrite {"text": "[ARGS]"})"}},
    {"Mistral, with ids", formats::ToolCallFormat::Mistral,
     "[TOOL_CALLS]add[CALL_ID]123456789[ARGS]{\"a\": 3, \"b\": 4}", "", {R"(add {"a": 3, "b": 4})"}},
    {"Kimi-K2", formats::ToolCallFormat::Kimi,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Beijing\"}<|tool_call_end|><|tool_calls_section_end|>",
     "", {R"(get_weather {"city": "Beijing"})"}},
    {"GLM-4.5", formats::ToolCallFormat::Hermes,
     "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</arg_value>\n<arg_key>date</arg_key>\n<arg_value>2024-06-27</arg_value>\n</tool_call>",
     "", {R"(get_weather {"city":"Beijing","date":"2024-06-27"})"}},
    {"GLM-5", formats::ToolCallFormat::Hermes,
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Beijing</arg_value></tool_call>",
     "", {R"(get_weather {"city":"Beijing"})"}},
    {"MiniMax-M2", formats::ToolCallFormat::MiniMax,
     "<minimax:tool_call>\n<invoke name=\"search_web\">\n<parameter name=\"query_tag\">[\"technology\", \"events\"]</parameter>\n"
     "<parameter name=\"query\">latest release</parameter>\n</invoke>\n</minimax:tool_call>",
     "", {R"(search_web {"query_tag":["technology","events"],"query":"latest release"})"}},
    {"MiniMax-M2, interleaved", formats::ToolCallFormat::MiniMax,
     "<think>First.</think>\n<minimax:tool_call>\n<invoke name=\"f\">\n</invoke>\n</minimax:tool_call>\n<think>Then.</think>\nDone.",
     "Done.", {"f {}"}, "First.\n\nThen."},
    {"gpt-oss", formats::ToolCallFormat::Harmony,
     "<|channel|>analysis<|message|>Need to use function get_current_weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_current_weather "
     "<|constrain|>json<|message|>{\"location\":\"San Francisco\"}<|call|>",
     "", {R"(get_current_weather {"location":"San Francisco"})"}, "Need to use function get_current_weather."},
};
// clang-format on
// NOLINTEND(modernize-raw-string-literal)

}  // namespace graft::server::testing
