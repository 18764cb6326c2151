import { useEffect, useState } from "preact/hooks";
import { ask, Refusal } from "../api";

/** Return the answer of a path of the API, or why it is refused; null: not known yet. It is asked for once more if `again` changes. */
export function useAnswer<Answer>(url: URL | null, again: unknown = null): Answer | Refusal | null {
  const [answer, setAnswer] = useState<Answer | Refusal | null>(null);
  useEffect(() => {
    if (url === null) return;
    let isCurrent = true;
    const show = (found: Answer | Refusal) => {
      if (isCurrent) setAnswer(() => found);
    };
    ask<Answer>(url).then(show, (error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      show(error);
    });
    return () => {
      isCurrent = false;
    };
  }, [url?.href, again]);
  return answer;
}

export function Refused({ refusal }: { readonly refusal: Refusal }) {
  return (
    <p class="bad">
      {refusal.message}. {refusal.hint}
    </p>
  );
}
