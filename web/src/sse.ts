// Parses server-sent events from chunks of bytes with arbitrary boundaries.

export class EventParser {
  private readonly decoder = new TextDecoder();
  private rest = "";
  private data: string[] = [];

  // Returns the data of every event completed by these bytes.
  push(bytes: Uint8Array): string[] {
    this.rest += this.decoder.decode(bytes, { stream: true });
    const events: string[] = [];
    // A CR at the end may be the first half of a CRLF.
    for (let match; (match = /\r\n|\n|\r(?!$)/.exec(this.rest)); ) {
      const line = this.rest.slice(0, match.index);
      this.rest = this.rest.slice(match.index + match[0].length);
      const event = this.line(line);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  private line(line: string): string | undefined {
    if (line === "") {
      if (this.data.length === 0) return undefined;
      const event = this.data.join("\n");
      this.data = [];
      return event;
    }
    if (line.startsWith("data:")) this.data.push(line.slice(line[5] === " " ? 6 : 5));
    return undefined; // comments and other fields are ignored
  }
}

export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const parser = new EventParser();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => {}); // aborts the request when the consumer stops
  }
}
