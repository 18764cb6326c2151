import { useState } from "preact/hooks";
import { logIn, Refusal } from "../api";
import { connect } from "../live";

/** Asks for a token, once: the service answers with a cookie that no script can read. */
export function LogIn() {
  const [problem, setProblem] = useState<string | null>(null);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
    try {
      await logIn(field.value.trim());
      connect();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      setProblem([error.message, error.hint].filter(Boolean).join(". "));
      field.focus();
    }
  };
  return (
    <form class="state note" onSubmit={(event) => void submit(event)}>
      <h2>Log in</h2>
      <p>The service needs a token with the right read. Its operator has the file with the tokens (service.tokens_file).</p>
      <label>
        Token <input name="token" type="password" autoComplete="current-password" required aria-describedby="log-in-problem" />
      </label>{" "}
      <button type="submit">Log in</button>
      <p id="log-in-problem" role="alert" class="bad">
        {problem}
      </p>
    </form>
  );
}
