// What the checks of all clients share: questions that the bundled model answers reliably, and a tool that it calls.

export const key = "secret";
export const question = { role: "user", content: "Find the sum of 62 and 1." };
export const sum = "62 + 1 = 63";
export const toolQuestion = { role: "user", content: "How much does the item watch cost?" };
export const tools = [
  {
    type: "function",
    function: {
      name: "get_price",
      description: "Get the price of an item",
      parameters: {
        type: "object",
        properties: { item: { type: "string", description: "The item" } },
        required: ["item"],
      },
    },
  },
];

// Whether the server takes a forced call; a check of one is skipped until it does.
export async function refusesForcedCalls(url) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ messages: [toolQuestion], tools, tool_choice: "required", max_tokens: 64, temperature: 0 }),
  });
  if (response.ok) return false;
  const { error } = await response.json();
  if (error.param !== "tool_choice") throw new Error(`tool_choice required: ${error.message}`);
  return true;
}
