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
